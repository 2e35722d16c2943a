"""
Faults of servers and processes around the workers, each under the name of its row; see `test_fault_cases.py`.

| row | what plain Celery does | here |
|---|---|---|
| A4 | forgets a retry it could not publish | the job runs again, its attempts counted on |
| A13 | loses messages and workers when Redis is full | the producer is told, the worker recovers |
| A16 | does everything twice with two beats | each entry is escalated once |
| A17 | misses ticks while the broker is down | the next tick does all that is overdue |
| A21 | shows everything to everybody | `tests/integration/test_worker_flower.py`: asks who it is, shows no payload |
| A24 | stops consuming when Redis comes back | `test_server_faults.py`: both pools, at the start and in the middle |
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from reliability.errors import StorageUnavailableError
from storage.jobs import JobState
from tests.support import fleet as fleets
from tests.support.fleet import Fleet, is_ready
from tests.support.rail import scripted
from tests.support.servers import RedisServer
from tests.support.worker_process import CelerySubprocess, WorkerProcess, poll

pytestmark = [pytest.mark.server, pytest.mark.process]

#: A rail that does not answer once; one that accepts without a receipt once. Both settle afterwards.
SCRIPT: Final = scripted({"hang-once": ["hang", "ok"], "pending-once": ["202", "ok"]})


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RedisServer]:
    """Run a broker of its own beside the ledger."""
    with RedisServer(tmp_path / "broker") as server:
        yield server


@pytest.fixture
def apart(redis_url: str, broker: RedisServer, tmp_path: Path) -> Iterator[Fleet]:
    """Run a deployment whose broker and ledger are two servers."""
    with fleets.running(tmp_path, redis_url, broker_url=broker.url, script=SCRIPT) as fleet:
        yield fleet


def test_a4_a_retry_that_cannot_be_published_is_not_forgotten(apart: Fleet, broker: RedisServer) -> None:
    """The broker dies while the hook runs, so that the retry cannot be sent: the job runs again as its next attempt."""
    worker = apart.worker().wait_until_ready()
    apart.enqueue("a4", tool="hang-once")
    poll(lambda: apart.requests("a4") == 1, fleets.LIMIT_S, "the hook to run")

    with broker.down():
        poll(lambda: apart.counts().retried == 1, fleets.LIMIT_S, "the attempt to fail")

    apart.wait_until_ended("a4")
    assert apart.requests("a4") == 2
    assert apart.effects("a4") == 1
    assert apart.counts().retried == 1
    assert worker.is_running


def test_a13_a_full_server_is_told_and_recovered_from(tmp_path: Path) -> None:
    """Redis has no memory left: the producer is told and keeps its jobs, the worker lives, and all is done later."""
    with RedisServer(tmp_path / "redis") as server, fleets.running(tmp_path, server.url) as fleet:
        worker = fleet.worker().wait_until_ready()
        receipts = [f"a13-{number}" for number in range(40)]
        fleet.enqueue(*receipts[:20], tool="rail.fail-twice")

        with server.client() as client:
            client.config_set("maxmemory", "1mb")
            with pytest.raises(StorageUnavailableError, match="admit"):
                fleet.enqueue(*receipts[20:])
            poll(lambda: not is_ready(worker), fleets.LIMIT_S, "the worker to say not ready")
            client.config_set("maxmemory", "0")

        poll(lambda: is_ready(worker), fleets.LIMIT_S, "the worker to be ready again")
        fleet.enqueue(*receipts[20:])
        fleet.wait_until_idle()
        assert [fleet.effects(receipt) for receipt in receipts] == [1] * 40
        assert fleet.counts().admitted == 40
        assert fleet.is_balanced()
        assert worker.is_running


def test_a16_two_beats_escalate_each_entry_once(apart: Fleet) -> None:
    """Two beats tick at once: every overdue entry is escalated by one of them, once."""
    worker, receipts = await_receipts(apart)

    with beat(apart, "b1"), beat(apart, "b2"):
        apart.wait_until_idle()

    assert escalations(worker) == dict.fromkeys(receipts, 1)
    assert [apart.effects(receipt) for receipt in receipts] == [1] * len(receipts)


def test_a17_ticks_missed_with_the_broker_are_made_up_for(apart: Fleet, broker: RedisServer) -> None:
    """The broker is down over several ticks: the next one escalates all that is overdue, each entry once."""
    with beat(apart, "b1") as ticking:
        poll(lambda: "beat: Starting" in ticking.log_text(), fleets.LIMIT_S, "beat to start")
        worker, receipts = await_receipts(apart)
        with broker.down():
            poll(lambda: ticking.log_text().count("rror") >= 3, fleets.LIMIT_S, "three ticks to fail")
        apart.wait_until_idle()

    assert escalations(worker) == dict.fromkeys(receipts, 1)
    assert worker.is_running


def await_receipts(fleet: Fleet) -> tuple[WorkerProcess, list[str]]:
    """Start a worker and have it bring ten settlements to the state in which they wait for their receipts."""
    worker = fleet.worker().wait_until_ready()
    receipts = [f"waiting-{number}" for number in range(10)]
    fleet.enqueue(*receipts, tool="pending-once")
    poll(lambda: len(fleet.storage.jobs.rows(JobState.AWAITING, 10)) == 10, fleets.LIMIT_S, "the rail to accept")
    return worker, receipts


def beat(fleet: Fleet, name: str) -> CelerySubprocess:
    """Return a beat that ticks every second."""
    return CelerySubprocess(fleet.directory / name, fleet.environ(), "beat")


def escalations(worker: WorkerProcess) -> dict[str, int]:
    """Count the escalations of each job that the worker logged."""
    lines = [json.loads(line) for line in worker.log_text().splitlines() if line.startswith("{")]
    return dict(Counter(line["job_id"] for line in lines if line["event"] == "reconciliation.escalated"))
