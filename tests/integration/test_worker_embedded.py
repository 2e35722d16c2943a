"""The server used when no other is named: started, found, protected and ended in order."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.support.worker_process import clean_environ, poll
from worker import doctor, embedded
from worker.settings import Settings

pytestmark = [pytest.mark.server, pytest.mark.process]

LIMIT_S = 20.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run `python -m worker.embedded` in a directory of its own."""
    process = _start(tmp_path)
    yield process
    process.kill()
    process.wait()


def _start(directory: Path) -> subprocess.Popen[bytes]:
    with (directory / "told").open("ab") as told:
        return subprocess.Popen(
            [sys.executable, "-m", "worker.embedded"],
            cwd=directory,
            env=clean_environ(directory, {}),
            stdout=subprocess.DEVNULL,
            stderr=told,
            start_new_session=True,
        )


def _settings(directory: Path) -> Settings:
    return Settings.load(data_dir=directory / ".chio")


def _client(directory: Path) -> redis.Redis:
    return redis.Redis.from_url(embedded.address(_settings(directory)))


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False


def test_it_is_safe_and_keeps_what_it_was_given(server: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """The doctor finds nothing wrong with it; data survives SIGKILL of everything; strangers are refused."""
    with _client(tmp_path) as client:
        poll(lambda: _answers(client), LIMIT_S, "the server to answer")
        client.set("kept", "yes")
        findings = doctor.examine(_settings(tmp_path), lambda: _now_ms(client))
        port = client.connection_pool.connection_kwargs["port"]
    with redis.Redis(port=port) as stranger, pytest.raises(redis.AuthenticationError):
        stranger.ping()

    server.kill()
    server.wait()
    again = _start(tmp_path)
    with _client(tmp_path) as client:
        poll(lambda: _answers(client), LIMIT_S, "the server to answer again")
        kept = client.get("kept")
    again.kill()
    again.wait()

    assert findings == []
    assert kept == b"yes"


def _now_ms(client: redis.Redis) -> int:
    seconds, microseconds = client.time()
    return int(seconds) * 1000 + int(microseconds) // 1000


def test_it_waits_for_its_clients(server: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """On SIGTERM it goes on while a client is connected, and ends when the client has gone."""
    with _client(tmp_path) as client:
        poll(lambda: _answers(client), LIMIT_S, "the server to answer")

        os.killpg(server.pid, signal.SIGTERM)
        answered_after_sigterm = all(_answers(client) for _ in range(50))

    assert answered_after_sigterm
    assert server.wait(LIMIT_S) == 0


def test_a_second_one_tells_why_it_cannot_start(server: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """Where the port is taken, the exit code is 2 and the message says what to do."""
    with _client(tmp_path) as client:
        poll(lambda: _answers(client), LIMIT_S, "the server to answer")

    second = _start(tmp_path)

    assert second.wait(LIMIT_S) == 2
    assert "CHIO_EMBEDDED_PORT" in (tmp_path / "told").read_text()
    assert server.poll() is None
