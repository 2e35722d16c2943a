"""The servers that the other tests stand on."""

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import ports, rabbit, sentinel, servers

pytestmark = pytest.mark.server


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Have the next look for a free port find one that another program takes before the server does."""
    find = ports.free_port
    with contextlib.closing(socket.create_server(("127.0.0.1", find()))) as other:
        port: int = other.getsockname()[1]
        found = [port]
        monkeypatch.setattr(ports, "free_port", lambda: found.pop() if found else find())
        yield port
        assert not found, "expected the server to try the taken port first"


def test_killed_server_keeps_what_was_written(tmp_path: Path) -> None:
    """A server killed with SIGKILL and started again answers on the same port with the same data."""
    with servers.RedisServer(tmp_path, appendfsync="always") as server:
        port = server.port
        with server.client() as client:
            client.set("kept", "yes")

        server.restart()

        with server.client() as client:
            assert (server.port, client.get("kept")) == (port, b"yes")


def test_context_leaves_no_process(tmp_path: Path) -> None:
    """Leaving the block ends the process."""
    with servers.RedisServer(tmp_path) as server:
        assert server.is_running

    assert not server.is_running


def test_server_takes_another_port_when_its_own_is_taken(tmp_path: Path, taken: int) -> None:
    """A server whose port was taken between the look-up and its start runs on another one."""
    with servers.RedisServer(tmp_path) as server, server.client() as client:
        assert client.info("server")["tcp_port"] == server.port != taken


def test_restarted_server_keeps_its_port_or_fails(tmp_path: Path) -> None:
    """A server that has had its port never moves: whoever knows its address would look for it in vain."""
    with servers.RedisServer(tmp_path) as server:
        server.stop()
        with (
            contextlib.closing(socket.create_server(("127.0.0.1", server.port))),
            pytest.raises(ports.PortTakenError, match="already in use"),
        ):
            server.start()


def test_sentinel_takes_another_port_when_its_own_is_taken(tmp_path: Path, taken: int) -> None:
    """A sentinel whose port was taken runs on another one."""
    watch = sentinel.Sentinel(tmp_path / "sentinel", primary_port=ports.free_port())
    try:
        assert watch.port != taken
    finally:
        watch.kill()


def test_node_takes_another_port_when_its_own_is_taken(tmp_path: Path, taken: int) -> None:
    """A RabbitMQ node whose port was taken runs on another one."""
    rabbit.require()

    with rabbit.RabbitServer(tmp_path) as node:
        assert node.port != taken


def test_test_processes_share_no_port() -> None:
    """What pytest-xdist runs side by side draws from ports of its own, and all ports are drawn from."""
    first, second = set(ports.own_ports("gw0", 2)), set(ports.own_ports("gw1", 2))

    assert first.isdisjoint(second)
    assert len(first | second) == len(ports.own_ports("gw0", 1))
