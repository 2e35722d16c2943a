"""A worker refuses to start on what would lose jobs, with exit code 2 and the sentence that says what to change."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import servers
from tests.support.worker_process import WorkerProcess

pytestmark = [pytest.mark.server, pytest.mark.process]

LIMIT_S = 20.0
CLOSED_URL = "redis://127.0.0.1:1/0"


def test_a_server_that_forgets_is_refused(tmp_path: Path) -> None:
    """A server with eviction and without an append-only file, as a stock container has, stops the start."""
    stock = {"appendonly": "no", "maxmemory-policy": "allkeys-lru"}
    with servers.RedisServer(tmp_path / "redis", options=stock) as server:
        worker = WorkerProcess(tmp_path / "w1", server.url)

        exit_code = worker.start().wait(LIMIT_S)

    assert exit_code == 2
    assert "set `appendonly yes`" in worker.log_text()
    assert "set `maxmemory-policy noeviction`" in worker.log_text()


def test_a_hook_that_does_not_load_is_refused(redis_url: str, tmp_path: Path) -> None:
    """A wrong hook path stops the start before any job meets it."""
    worker = WorkerProcess(tmp_path / "w1", redis_url, environ={"CHIO_SETTLEMENT_HOOK": "no.such:hook"})

    exit_code = worker.start().wait(LIMIT_S)

    assert exit_code == 2
    assert "no.such:hook" in worker.log_text()


@pytest.mark.parametrize(
    "environ,named",
    [
        ({"CHIO_VISIBILITY_TIMEOUT_S": "5"}, "CHIO_VISIBILITY_TIMEOUT_S (5) must exceed"),
        ({"CHIO_POOL": "gevent"}, "CHIO_POOL: Input should be 'prefork' or 'threads'"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(tmp_path: Path, environ: dict[str, str], named: str) -> None:
    """Settings that cannot work stop the start at once, before any server is asked, and without a traceback."""
    worker = WorkerProcess(tmp_path / "w1", CLOSED_URL, environ=environ)

    exit_code = worker.start().wait(LIMIT_S)

    assert exit_code == 2
    assert named in worker.log_text()
    assert "Traceback" not in worker.log_text()


@pytest.fixture(scope="module")
def cluster_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a Redis Cluster of one node that has every slot."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        # Its second port; the default would be the first plus 10,000, which may be past the last one.
        options = {"cluster-enabled": "yes", "databases": "1", "cluster-port": str(probe.getsockname()[1])}
    with servers.RedisServer(tmp_path_factory.mktemp("cluster"), options=options) as server:
        with server.client() as client:
            client.execute_command("CLUSTER ADDSLOTSRANGE", 0, 16_383)
        yield server.url


@pytest.mark.parametrize("setting", ["CHIO_REDIS_URL", "CHIO_BROKER_URL"])
def test_a_cluster_is_refused(setting: str, cluster_url: str, redis_url: str, tmp_path: Path) -> None:
    """A worker whose ledger or broker is a Redis Cluster ends with code 2 and one sentence that says so."""
    environ = {"CHIO_REDIS_URL": redis_url, setting: cluster_url}
    worker = WorkerProcess(tmp_path / "w1", redis_url, environ=environ)

    exit_code = worker.start().wait(LIMIT_S)

    assert exit_code == 2
    assert f"{setting} is a Redis Cluster, which neither ledger nor broker can use" in worker.log_text()
