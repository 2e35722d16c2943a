"""
Faults of servers and processes around the workers, each under the name of its row; see `test_fault_cases.py`.

| row | what plain Celery does | here |
|---|---|---|
| A4 | forgets a retry it could not publish | the job runs again, its attempts counted on |
| A9 | drops what it cannot read | what is set aside while the quarantine is away outlives its worker |
| A13 | loses messages and workers when Redis is full | the producer is told, the worker recovers; a full broker too |
| A15 | writes no dead letter while a store is down | it waits on disk and is written when the ledger is back |
| A16 | does everything twice with two beats | each entry is escalated once |
| A17 | misses ticks while the broker is down | the next tick does all that is overdue |
| A21 | shows everything to everybody | `tests/integration/test_worker_flower.py`: asks who it is, shows no payload |
| A24 | stops consuming when Redis comes back | `test_server_faults.py`: both pools, at the start and in the middle |
"""

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from reliability.errors import StorageUnavailableError
from reliability.failures import SettlementFailureCode
from storage.jobs import JobState
from tests.support import fleet as fleets
from tests.support import poison
from tests.support.fleet import Fleet, is_ready
from tests.support.rail import scripted
from tests.support.servers import RedisServer
from tests.support.worker_process import CelerySubprocess, WorkerProcess, poll
from worker.envelope import Defect

pytestmark = [pytest.mark.server, pytest.mark.process]

#: A rail that does not answer once, and settles or fails for ever; one that accepts without a receipt once; one that
#: says no after a while.
SCRIPT: Final = scripted(
    {
        "hang-once": ["hang", "ok"],
        "hang-and-fail": ["hang", "503"],
        "pending-once": ["202", "ok"],
        "hang": ["hang"],
    }
)
#: A job that always fails ends soon.
TWO_RETRIES: Final = {"CHIO_SETTLEMENT_MAX_RETRIES": "2"}
QUEUE_KEY: Final = "chio:broker:settlement"


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
    """The broker dies while hooks run, so that no retry can be sent: the jobs run again, their attempts counted on."""
    worker = apart.worker(**TWO_RETRIES).wait_until_ready()
    apart.enqueue("a4", tool="hang-once")
    apart.enqueue("a4-dead", tool="hang-and-fail")
    poll(lambda: apart.requests("a4") == apart.requests("a4-dead") == 1, fleets.LIMIT_S, "the hooks to run")

    with broker.down():
        poll(lambda: apart.counts().retried == 2, fleets.LIMIT_S, "the attempts to fail")

    apart.wait_until_idle()
    assert (apart.requests("a4"), apart.effects("a4")) == (2, 1)
    record = apart.storage.dead_letters.get("a4-dead")
    assert record is not None
    assert (record.attempts, apart.requests("a4-dead")) == (3, 3)
    assert apart.counts().retried == 3
    assert worker.is_running


def test_a9_what_is_set_aside_outlives_the_worker_that_did_it(broker: RedisServer, tmp_path: Path) -> None:
    """The ledger is down when poison comes, and the worker is killed: the next one on the host keeps all of it."""
    poisons = [b"not json", poison.element_bytes(headers=poison.without("id"))]
    with (
        RedisServer(tmp_path / "ledger", appendfsync="always") as ledger,
        fleets.running(tmp_path, ledger.url, broker_url=broker.url) as fleet,
    ):
        worker = fleet.worker().wait_until_ready()
        with ledger.down(), broker.client() as client:
            client.lpush(QUEUE_KEY, *poisons)
            poll(lambda: spooled(worker) == len(poisons), fleets.LIMIT_S, "the poison to be on disk")
            worker.kill_session()
        fleet.worker(CHIO_DATA_DIR=str(worker.data_dir))

        poll(lambda: fleet.storage.quarantine.counts().entries == 2, fleets.LIMIT_S, "the poison to be quarantined")
        kept = fleet.storage.quarantine.list(10)
        assert sorted(fleet.storage.quarantine.raw(entry.entry_id) or b"" for entry in kept) == sorted(poisons)
        assert {entry.reason for entry in kept} == {Defect.BROKEN_ENVELOPE, Defect.MISSING_ID}


def test_a13_a_full_server_is_told_and_recovered_from(tmp_path: Path) -> None:
    """Redis has no memory left: the producer is told and keeps its jobs, the worker lives, and all is done later."""
    with RedisServer(tmp_path / "redis") as server, fleets.running(tmp_path, server.url) as fleet:
        worker = fleet.worker().wait_until_ready()
        receipts = [f"a13-{number}" for number in range(40)]
        fleet.enqueue(*receipts[:20], tool="rail.fail-twice")

        with server.full():
            with pytest.raises(StorageUnavailableError, match="admit"):
                fleet.enqueue(*receipts[20:])
            poll(lambda: not is_ready(worker), fleets.LIMIT_S, "the worker to say not ready")

        poll(lambda: is_ready(worker), fleets.LIMIT_S, "the worker to be ready again")
        fleet.enqueue(*receipts[20:])
        fleet.wait_until_idle()
        assert [fleet.effects(receipt) for receipt in receipts] == [1] * 40
        assert fleet.counts().admitted == 40
        assert fleet.is_balanced()
        assert worker.is_running


def test_a13_a_worker_without_work_tells_that_the_ledger_is_full(tmp_path: Path, broker: RedisServer) -> None:
    """A ledger that only answers is not enough to be ready: a worker whose broker is well says so all the while."""
    with (
        RedisServer(tmp_path / "ledger") as ledger,
        fleets.running(tmp_path, ledger.url, broker_url=broker.url) as fleet,
    ):
        worker = fleet.worker().wait_until_ready()

        with ledger.full():
            poll(lambda: not is_ready(worker), fleets.LIMIT_S, "the worker to say not ready")
            said: list[bool] = []
            # Twice as long as what a worker told last is believed.
            ends_at_s = time.monotonic() + 2 * int(fleets.SHORT["CHIO_HEALTH_STALE_AFTER_S"])
            while time.monotonic() < ends_at_s:
                said.append(is_ready(worker))
                time.sleep(0.05)

        poll(lambda: is_ready(worker), fleets.LIMIT_S, "the worker to be ready again")
        assert not any(said)


def test_a13_a_full_broker_costs_nothing_that_was_admitted(
    apart: Fleet, broker: RedisServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The broker alone has no memory left: the rows stay due, which is told, and all is done later, unattended."""
    worker = apart.worker().wait_until_ready()
    receipts = [f"a13-{number}" for number in range(10)]

    with broker.full():
        apart.enqueue(*receipts)
        owed = apart.in_flight()

    apart.wait_until_idle()
    assert owed == 10
    assert "publish.failed" in capsys.readouterr().out
    assert [apart.effects(receipt) for receipt in receipts] == [1] * 10
    assert apart.is_balanced()
    assert worker.is_running


def test_a15_a_dead_letter_is_written_though_the_ledger_was_down(tmp_path: Path) -> None:
    """The last attempt fails while the ledger is away past the lease: the dead letter is written when it is back."""
    with (
        RedisServer(tmp_path / "redis", appendfsync="always") as server,
        fleets.running(tmp_path, server.url, script=SCRIPT) as fleet,
    ):
        worker = fleet.worker(CHIO_SETTLEMENT_MAX_RETRIES="0").wait_until_ready()
        fleet.enqueue("a15", tool="hang")
        poll(lambda: fleet.requests("a15") == 1, fleets.LIMIT_S, "the last attempt to run")

        with server.down():
            outcomes = worker.data_dir / "spool"
            poll(lambda: any(outcomes.glob("*.json")), fleets.LIMIT_S, "the outcome to be on disk")

        fleet.wait_until_ended("a15")
        record = fleet.storage.dead_letters.get("a15")
        assert record is not None
        assert (record.attempts, record.reason.code) == (1, SettlementFailureCode.RPC)
        assert fleet.requests("a15") == 1
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


def spooled(worker: WorkerProcess) -> int:
    """Count the messages that wait on the worker's disk for the quarantine."""
    return len(list((worker.data_dir / "spool" / "quarantine").glob("*.message")))


def beat(fleet: Fleet, name: str) -> CelerySubprocess:
    """Return a beat that ticks every second."""
    return CelerySubprocess(fleet.directory / name, fleet.environ(), "beat")


def escalations(worker: WorkerProcess) -> dict[str, int]:
    """Count the escalations of each job that the worker logged."""
    lines = [json.loads(line) for line in worker.log_text().splitlines() if line.startswith("{")]
    return dict(Counter(line["job_id"] for line in lines if line["event"] == "reconciliation.escalated"))
