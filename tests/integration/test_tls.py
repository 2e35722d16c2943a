"""
Ledger and broker over TLS with a private authority: what it vouches for is used, everything else is refused.

Debian's `redis-server` speaks TLS, the packaged Valkey does not.
"""

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import kombu.exceptions
import pytest

from tests.support import fleet as fleets
from tests.support import rabbit, secured
from tests.support.authority import Authority, Certificate
from tests.support.cli_process import chio_worker
from tests.support.operator import Operator
from tests.support.secured import SecuredServer
from tests.support.secured_rabbit import SecuredRabbit
from tests.support.servers import RedisServer

pytestmark = [pytest.mark.server, pytest.mark.process]

HOST: Final = "127.0.0.1"
#: A database of the session's server that no other test uses.
DATABASE: Final = 60


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Make the authority that the settings name."""
    return Authority(tmp_path_factory.mktemp("authority") / "ours")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Make an authority that nobody knows."""
    return Authority(tmp_path_factory.mktemp("authority") / "unknown")


def redis_with(directory: Path, certificate: Certificate) -> SecuredServer:
    """Return a Redis that speaks TLS alone; skip where there is none, fail where it has to be."""
    return SecuredServer(directory, binary=secured.installed_redis(), certificate=certificate)


@pytest.fixture(scope="module")
def node(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredRabbit]:
    """Run a RabbitMQ with a certificate for this host."""
    rabbit.require()
    with SecuredRabbit(tmp_path_factory.mktemp("rabbit"), authority.vouch_for(HOST)) as running:
        yield running


def test_a_deployment_runs_over_tls(authority: Authority, tmp_path: Path) -> None:
    """Worker and command line reach ledger and broker over TLS, as users of the ACL, and a job is settled."""
    settings = {"CHIO_TLS_CA_FILE": str(authority.certificate)}
    line = fleets.observation("over-tls").canonical_json()
    with (
        redis_with(tmp_path / "redis", authority.vouch_for(HOST)) as server,
        fleets.running(tmp_path, server.url_for("worker"), settings=settings) as fleet,
    ):
        fleet.worker().wait_until_ready()
        command = ("enqueue", "settlement", "-")
        answer = chio_worker(tmp_path, server.url_for("operator"), *command, stdin=line, environ=settings)
        fleet.wait_until_ended("over-tls")

        assert (answer.returncode, fleet.effects("over-tls")) == (0, 1)
        assert server.refused() == set()


def test_a_ledger_that_nobody_vouches_for_is_refused(authority: Authority, stranger: Authority, tmp_path: Path) -> None:
    """A server with a certificate of another authority, or of another host, gets no password and no command."""
    for number, certificate in enumerate([stranger.vouch_for(HOST), authority.vouch_for("other.example")]):
        with redis_with(tmp_path / str(number), certificate) as server:
            url, environ = server.url_for("operator"), {"CHIO_TLS_CA_FILE": str(authority.certificate)}
            answer = chio_worker(tmp_path, url, "status", environ=environ)
            with server.client_of("admin") as admin:
                logged_in = {client["user"] for client in admin.client_list()}

        assert answer.returncode == 2
        assert b"check that it is up and reachable" in answer.stderr
        assert logged_in == {"admin"}


def test_a_broker_that_nobody_vouches_for_is_refused(authority: Authority, stranger: Authority, tmp_path: Path) -> None:
    """A Redis broker with a certificate of another authority, or of another host, is not spoken to."""
    for number, certificate in enumerate([stranger.vouch_for(HOST), authority.vouch_for("other.example")]):
        with redis_with(tmp_path / str(number), certificate) as server:
            operator = Operator(server.url_for("operator"), tmp_path, tls_ca_file=authority.certificate)

            with pytest.raises(kombu.exceptions.OperationalError, match="certificate verify failed"):
                ping(operator)
            operator.close()


def ping(operator: Operator) -> None:
    """Connect to the broker once."""
    with operator.app.connection_for_write() as connection:
        connection.ensure_connection(max_retries=1, interval_start=0)


def test_a_stranger_without_tls_gets_nothing(authority: Authority, tmp_path: Path) -> None:
    """Whoever speaks plain text to the port is answered with nothing that the server knows."""
    answered = b""
    with (
        redis_with(tmp_path / "redis", authority.vouch_for(HOST)) as server,
        socket.create_connection((HOST, server.port), timeout=5) as plain,
        contextlib.suppress(ConnectionResetError),
    ):
        plain.sendall(b"PING\r\nINFO\r\n")
        answered = plain.recv(1_000)

    assert b"PONG" not in answered
    assert b"redis" not in answered


def test_rabbitmq_carries_jobs_over_tls(
    node: SecuredRabbit, authority: Authority, redis_server: RedisServer, tmp_path: Path
) -> None:
    """With `amqps` and the authority in the settings a worker consumes from RabbitMQ and settles."""
    settings = {"CHIO_TLS_CA_FILE": str(authority.certificate)}
    url = redis_server.url_of(DATABASE)
    with fleets.running(tmp_path, url, broker_url=node.url, settings=settings) as fleet:
        fleet.worker().wait_until_ready()
        fleet.enqueue("over-amqps")
        fleet.wait_until_ended("over-amqps")

        assert fleet.effects("over-amqps") == 1


def test_a_rabbitmq_that_nobody_vouches_for_is_refused(
    node: SecuredRabbit, authority: Authority, stranger: Authority, redis_server: RedisServer, tmp_path: Path
) -> None:
    """With another authority, or at an address that is not in its certificate, a RabbitMQ is not spoken to."""
    for url, trusted in [(node.url, stranger), (node.url_of_other_address, authority)]:
        given = {"broker_url": url, "tls_ca_file": trusted.certificate}
        operator = Operator(redis_server.url_of(DATABASE), tmp_path, **given)

        with pytest.raises(kombu.exceptions.OperationalError, match="certificate verify failed"):
            ping(operator)
        operator.close()
