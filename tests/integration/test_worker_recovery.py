"""What the ledger repairs when the broker, the server or the worker fails under a running worker."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest
import redis

from tests.support import observations, servers
from tests.support.operator import Operator
from tests.support.recording_hook import calls_in, environ_of
from tests.support.worker_process import WorkerProcess, poll

pytestmark = [pytest.mark.server, pytest.mark.process]

LIMIT_S = 20.0
SECRET = "4929-1234-5678-9012"


@pytest.fixture
def operator(redis_url: str, tmp_path: Path) -> Iterator[Operator]:
    """Give the producer's side."""
    operator = Operator(redis_url, tmp_path)
    yield operator
    operator.close()


def test_deleting_the_brokers_keys_loses_no_job(operator: Operator, redis_url: str, tmp_path: Path) -> None:
    """Every message of the broker is deleted while jobs wait in it; all settle, each attempt made once."""
    calls = tmp_path / "calls"
    receipts = [f"rcpt-{number}" for number in range(20)]
    with WorkerProcess(tmp_path / "w1", redis_url, environ=environ_of(calls, 0.2)):
        operator.enqueue(*receipts)
        poll(lambda: len(calls_in(calls)) > 2, LIMIT_S, "some hooks to begin")

        deleted = _delete_broker_keys(redis_url)
        poll(lambda: operator.settled() == len(receipts), LIMIT_S, "all to settle")

    assert deleted > 0
    assert sorted(line for line in calls_in(calls) if line.startswith("begin")) == sorted(
        f"begin {receipt}" for receipt in receipts
    )


def _delete_broker_keys(redis_url: str) -> int:
    with redis.Redis.from_url(redis_url) as client:
        return sum(client.delete(key) for key in client.scan_iter("chio:broker:*"))


def test_a_job_whose_worker_was_killed_is_made_again(operator: Operator, redis_url: str, tmp_path: Path) -> None:
    """SIGKILL inside the hook costs one attempt: the lease expires and another worker makes the next one."""
    calls = tmp_path / "calls"
    with WorkerProcess(tmp_path / "w1", redis_url, environ=environ_of(calls, 60.0)) as first:
        operator.enqueue("rcpt-1")
        poll(lambda: calls_in(calls) == ["begin rcpt-1"], LIMIT_S, "the hook to begin")
        first.kill()

    with WorkerProcess(tmp_path / "w2", redis_url, environ=environ_of(calls, 0.0)):
        poll(lambda: operator.settled() == 1, LIMIT_S, "the job to settle")

    assert calls_in(calls) == ["begin rcpt-1", "begin rcpt-1", "end rcpt-1"]


def test_a_lease_is_renewed_while_its_hook_runs(operator: Operator, redis_url: str, tmp_path: Path) -> None:
    """A hook that takes longer than a lease keeps its claim: nobody else makes the attempt."""
    calls = tmp_path / "calls"
    quick = {"CHIO_LEASE_MS": "2000", **environ_of(calls, 3.5)}
    with WorkerProcess(tmp_path / "w1", redis_url, environ=quick):
        operator.enqueue("rcpt-1")
        poll(lambda: operator.settled() == 1, LIMIT_S, "the job to settle")

    assert calls_in(calls) == ["begin rcpt-1", "end rcpt-1"]


def test_a_worker_outlives_its_server(tmp_path: Path) -> None:
    """The server is killed and restarted: the worker tells that it is not ready, and goes on by itself."""
    with servers.RedisServer(tmp_path / "redis", appendfsync="always") as server:
        operator = Operator(server.url, tmp_path)
        with WorkerProcess(tmp_path / "w1", server.url) as worker:
            pid = worker.pid
            with server.down():
                poll(lambda: not _consumes(worker), LIMIT_S, "the worker to notice")
            operator.enqueue("rcpt-1")
            poll(lambda: operator.settled() == 1, LIMIT_S, "the job to settle")

            poll(lambda: _consumes(worker), LIMIT_S, "the worker to tell that it is back")
            assert worker.pid == pid
        operator.close()


def _consumes(worker: WorkerProcess) -> bool:
    found = worker.health()
    return found is not None and found.consuming


def test_events_and_logs_show_ids_and_no_payload(operator: Operator, redis_url: str, tmp_path: Path) -> None:
    """A foreign producer's whole observation is settled, and neither Flower's events nor the log show what is in it."""
    observation = observations.observation(receipt_id="rcpt-seen", tool_name=SECRET)
    kwargs = {"observation": observation.to_wire()}
    environ = {"CHIO_SEND_TASK_EVENTS": "true"}
    with WorkerProcess(tmp_path / "w1", redis_url, environ=environ) as worker, _Events(operator.app) as events:
        operator.app.send_task("chio.settle.observe", kwargs=kwargs, queue="settlement", task_id="task-1")

        poll(lambda: "task-succeeded" in events.types(), LIMIT_S, "the last event")
        log = worker.log_text()

    received = next(event for event in events.seen if event["type"] == "task-received")
    assert received["kwargs"] == "{'receipt_id': 'rcpt-seen'}"
    assert SECRET not in repr(events.seen)
    assert SECRET not in log
    assert "rcpt-seen" in log


class _Events:
    """Collect what Flower would see."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.seen: list[dict[str, Any]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def types(self) -> list[str]:
        return [event["type"] for event in self.seen]

    def _run(self) -> None:
        with self._app.connection_for_read() as connection:
            receiver = self._app.events.Receiver(connection, handlers={"*": self.seen.append})
            for _ in receiver.itercapture(limit=None, timeout=None, wakeup=True):
                if self._stop.is_set():
                    return

    def __enter__(self) -> Self:
        self._thread.start()
        poll(lambda: bool(self.seen), LIMIT_S, "the first event")
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        # A worker's heartbeat lets the thread see that it is to stop.
        self._thread.join(LIMIT_S)
