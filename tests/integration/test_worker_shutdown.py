"""A worker that is told to end finishes or returns everything, and leaves no process behind."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.operator import Operator
from tests.support.recording_hook import calls_in, environ_of
from tests.support.worker_process import WorkerProcess, poll

pytestmark = [pytest.mark.server, pytest.mark.process]

#: Longest wait for what should happen at once.
LIMIT_S = 10.0
#: Nothing listens on this port, and only root could.
CLOSED_PORT = 1

Start = Callable[..., WorkerProcess]


@pytest.fixture
def operator(redis_url: str, tmp_path: Path) -> Iterator[Operator]:
    """Give the producer's side."""
    operator = Operator(redis_url, tmp_path)
    yield operator
    operator.close()


@pytest.fixture
def start(redis_url: str, tmp_path: Path) -> Iterator[Start]:
    """Start workers, each in a directory of its own, and end them with the test."""
    with ExitStack() as stack:

        def start(name: str = "w1", **environ: str) -> WorkerProcess:
            options = ("-n", f"{name}@%h")
            return stack.enter_context(WorkerProcess(tmp_path / name, redis_url, environ=environ, options=options))

        yield start


def test_sigterm_lets_the_running_attempt_end(start: Start, operator: Operator, tmp_path: Path) -> None:
    """On SIGTERM a running hook ends, its outcome is recorded, and the worker exits with 0."""
    calls = tmp_path / "calls"
    worker = start(**environ_of(calls, 1.0))
    operator.enqueue("rcpt-1")
    poll(lambda: calls_in(calls) == ["begin rcpt-1"], LIMIT_S, "the hook to begin")

    worker.terminate()
    exit_code = worker.wait(LIMIT_S)

    assert exit_code == 0
    assert calls_in(calls) == ["begin rcpt-1", "end rcpt-1"]
    assert operator.settled() == 1
    assert worker.health() is None


def test_a_signal_to_the_whole_group_does_not_reach_the_hook(start: Start, operator: Operator, tmp_path: Path) -> None:
    """A process manager that signals the whole group ends the worker in order, not the hook in the middle."""
    calls = tmp_path / "calls"
    worker = start(**environ_of(calls, 1.0))
    operator.enqueue("rcpt-1")
    poll(lambda: calls_in(calls) == ["begin rcpt-1"], LIMIT_S, "the hook to begin")

    worker.terminate_group()
    exit_code = worker.wait(LIMIT_S)

    assert exit_code == 0
    assert calls_in(calls) == ["begin rcpt-1", "end rcpt-1"]
    assert operator.settled() == 1


def test_what_was_not_begun_returns_to_the_next_worker(start: Start, operator: Operator, tmp_path: Path) -> None:
    """Messages a stopping worker had taken and not begun are run by the next one, each once."""
    calls = tmp_path / "calls"
    first = start("w1", CHIO_CONCURRENCY="1", **environ_of(calls, 0.5))
    receipts = [f"rcpt-{number}" for number in range(4)]
    operator.enqueue(*receipts)
    poll(lambda: bool(calls_in(calls)), LIMIT_S, "the first hook to begin")

    first.terminate()
    assert first.wait(LIMIT_S) == 0
    start("w2", CHIO_CONCURRENCY="1", **environ_of(calls, 0.0))
    poll(lambda: operator.settled() == len(receipts), LIMIT_S, "all to settle")

    assert sorted(calls_in(calls)) == sorted(f"{what} {receipt}" for what in ("begin", "end") for receipt in receipts)


def test_a_hook_longer_than_the_grace_is_interrupted_and_recorded(
    start: Start, operator: Operator, tmp_path: Path
) -> None:
    """When the grace has passed, the hook is interrupted, its attempt counts as failed, and another worker goes on."""
    calls = tmp_path / "calls"
    first = start("w1", CHIO_SOFT_SHUTDOWN_TIMEOUT_S="1", **environ_of(calls, 25.0))
    operator.enqueue("rcpt-1")
    poll(lambda: calls_in(calls) == ["begin rcpt-1"], LIMIT_S, "the hook to begin")

    first.terminate()
    exit_code = first.wait(LIMIT_S)
    row = operator.storage.jobs.get("rcpt-1")
    start("w2", **environ_of(calls, 0.0))
    poll(lambda: operator.settled() == 1, LIMIT_S, "the job to settle")

    assert exit_code == 0
    assert row is not None
    assert row.attempt == 1
    assert calls_in(calls) == ["begin rcpt-1", "begin rcpt-1", "end rcpt-1"]


def test_killing_the_worker_leaves_no_pool_process(start: Start) -> None:
    """The kernel ends the pool processes of a worker that was killed: no hook runs on unattended."""
    worker = start()
    children = worker.children()

    worker.kill()

    assert len(children) == 2
    poll(lambda: not any(_is_alive(pid) for pid in children), LIMIT_S, "the pool processes to end")


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_worker_waiting_for_its_broker_ends_at_once(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """A worker that has no server to talk to is live, not ready, and still ends on SIGTERM."""
    worker = WorkerProcess(tmp_path / "w1", f"redis://127.0.0.1:{CLOSED_PORT}/0")
    request.addfinalizer(worker.kill)
    worker.start()
    poll(lambda: worker.health() is not None, LIMIT_S, "the worker to tell of itself")
    health = worker.health()

    worker.terminate()
    worker.wait(LIMIT_S)

    assert health is not None
    assert health.is_live(health.written_at_ms, 1_000)
    assert not health.is_ready(health.written_at_ms, 1_000)
