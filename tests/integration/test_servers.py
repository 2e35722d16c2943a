"""The server that the other tests stand on."""

from pathlib import Path

import pytest

from tests.support import servers

pytestmark = pytest.mark.server


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
