"""Pool processes outlive what is meant for attempts, and do not outlive their worker."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.operator import Operator
from tests.support.servers import RedisServer
from tests.support.worker_process import WorkerProcess, poll

pytestmark = [pytest.mark.server, pytest.mark.process]

LIMIT_S = 10.0


@pytest.fixture
def operator(redis_url: str, tmp_path: Path) -> Iterator[Operator]:
    """Give the producer's side."""
    operator = Operator(redis_url, tmp_path)
    yield operator
    operator.close()


def test_a_late_soft_limit_leaves_an_idle_process_alone(operator: Operator, redis_url: str, tmp_path: Path) -> None:
    """A soft time limit that comes after its attempt ends no process and interrupts no other attempt."""
    with WorkerProcess(tmp_path / "w1", redis_url) as worker:
        children = worker.children()
        receipts = [f"rcpt-{number}" for number in range(20)]
        operator.enqueue(*receipts)
        poll(lambda: operator.settled() == len(receipts), LIMIT_S, "the jobs to settle")

        for child in children:
            os.kill(child, signal.SIGUSR1)
        operator.enqueue("after")
        poll(lambda: operator.settled() == len(receipts) + 1, LIMIT_S, "the next job to settle")

        assert worker.children() == children
        assert operator.storage.jobs.get("after") is None


def test_a_process_that_dies_before_the_first_message_is_replaced(tmp_path: Path) -> None:
    """A pool process is killed while its worker waits for its server: the worker begins with another one."""
    server = RedisServer(tmp_path / "redis")
    server.start()
    with server.down():
        worker = WorkerProcess(tmp_path / "w1", server.url).start()
        poll(lambda: worker.health() is not None and len(worker.children()) == 2, LIMIT_S, "the worker to wait")
        os.kill(worker.children()[0], signal.SIGKILL)

    worker.wait_until_ready()

    poll(lambda: len(worker.children()) == 2, LIMIT_S, "another process to take its place")
    assert worker.is_running
    worker.kill()
    server.kill()


def test_idle_processes_leave_with_their_worker(redis_url: str, tmp_path: Path) -> None:
    """When the main process alone is killed, its idle pool processes go at once."""
    with WorkerProcess(tmp_path / "w1", redis_url) as worker:
        children = worker.children()

        worker.kill_main()

        poll(lambda: not any(is_alive(pid) for pid in children), LIMIT_S, "the pool processes to leave")


def is_alive(pid: int) -> bool:
    """Tell whether the process runs; one that nobody waited for yet does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
