"""Batches on real workers and a real server: nothing lost, nothing repeated that was recorded, nobody taken along."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from storage.jobs import JobKind, JobState
from tasks import enqueue
from tests.support import batches, fleet, moody_hook
from tests.support.operator import Operator
from tests.support.recording_hook import calls_in
from tests.support.worker_process import WorkerProcess, poll
from worker.simulators.rail_script import RailScript

pytestmark = [pytest.mark.server, pytest.mark.process]

LIMIT_S = 40.0
PACKED = 100


@pytest.fixture
def operator(redis_url: str, tmp_path: Path) -> Iterator[Operator]:
    """Give the producer's side."""
    operator = Operator(redis_url, tmp_path)
    yield operator
    operator.close()


def enqueued(operator: Operator, *receipts: str, size: int = PACKED) -> list[str]:
    """Admit settlements, finalised in this order, and wake them in batches."""
    jobs = [batches.job(receipt, batches.FINALIZED_AT + place) for place, receipt in enumerate(receipts)]
    enqueue.enqueue_many(operator.app, operator.storage.jobs, jobs, size)
    return list(receipts)


def begins(calls: Path) -> Counter[str]:
    """Count how often the hook was asked about each receipt."""
    return Counter(line.removeprefix("begin ") for line in calls_in(calls))


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_packed_jobs_settle_once(operator: Operator, redis_url: str, tmp_path: Path, pool: str) -> None:
    """What a producer packed is settled on both pools, each job asked about once, with a message for each hundred."""
    calls = tmp_path / "calls"
    receipts = enqueued(operator, *batches.names(250))
    with redis.Redis.from_url(redis_url) as client:
        messages = client.llen("chio:broker:settlement")

    with WorkerProcess(tmp_path / "w", redis_url, environ={"CHIO_POOL": pool, **moody_hook.environ_of(calls)}):
        poll(lambda: operator.settled() == 250, LIMIT_S, "all to settle")

    assert messages == 3
    assert begins(calls) == Counter(receipts)


def test_retries_of_a_batch_run_and_end(operator: Operator, redis_url: str, tmp_path: Path) -> None:
    """Jobs that fail every time are retried with their policy's countdowns and end as dead letters; the rest settle."""
    calls = tmp_path / "calls"
    enqueued(operator, *batches.names(20), *(f"busy-{number}" for number in range(20)))
    quick = {"CHIO_SETTLEMENT_MAX_RETRIES": "2", "CHIO_SETTLEMENT_INITIAL_BACKOFF_MS": "50"}

    with WorkerProcess(tmp_path / "w", redis_url, environ={**quick, **moody_hook.environ_of(calls)}):
        poll(lambda: operator.in_flight() == 0, LIMIT_S, "all to end")

    assert operator.settled() == 20
    assert operator.storage.jobs.counts(JobKind.SETTLEMENT).dead == 20
    assert {name: count for name, count in begins(calls).items() if count > 1} == {
        f"busy-{number}": 3 for number in range(20)
    }


def test_a_worker_killed_in_a_batch_repeats_nothing_that_was_recorded(
    operator: Operator, redis_url: str, tmp_path: Path
) -> None:
    """SIGKILL in mid-batch: what the ledger had stays as it is, the rest is made again by the next worker."""
    calls = tmp_path / "calls"
    receipts = enqueued(operator, *batches.names(400), size=400)
    slow = {"CHIO_BATCH_CONCURRENCY": "8", **moody_hook.environ_of(calls, 0.1)}
    with WorkerProcess(tmp_path / "w1", redis_url, environ=slow) as worker:
        poll(lambda: operator.settled() >= 16, LIMIT_S, "some to be recorded")
        worker.kill()
    recorded = {receipt for receipt in receipts if operator.storage.jobs.get(receipt) is None}

    with WorkerProcess(tmp_path / "w2", redis_url, environ={**slow, "TEST_HOOK_SECONDS": "0"}):
        poll(lambda: operator.settled() == 400, LIMIT_S, "all to settle")

    asked = begins(calls)
    assert len(recorded) >= 16
    assert {asked[receipt] for receipt in recorded} == {1}
    assert max(asked.values()) <= 2


def test_a_job_that_kills_its_worker_takes_no_other_along(operator: Operator, redis_url: str, tmp_path: Path) -> None:
    """It ends as a dead letter by itself; every other job of its batch settles, at most one attempt later."""
    calls = tmp_path / "calls"
    others = batches.names(30)
    enqueued(operator, *others[:15], "kill-1", *others[15:])
    quick = {
        "CHIO_SETTLEMENT_MAX_RETRIES": "2",
        "CHIO_SETTLEMENT_INITIAL_BACKOFF_MS": "50",
        "CHIO_LEASE_MS": "2000",
        "CHIO_BATCH_CONCURRENCY": "4",
    }

    with WorkerProcess(tmp_path / "w", redis_url, environ={**quick, **moody_hook.environ_of(calls, 0.01)}):
        poll(lambda: operator.in_flight() == 0, LIMIT_S, "all to end")

    asked = begins(calls)
    (dead,) = operator.storage.dead_letters.list()
    assert operator.settled() == 30
    assert (dead.receipt_id, dead.attempts) == ("kill-1", 3)
    assert asked["kill-1"] == 3
    assert max(asked[other] for other in others) <= 2


def test_a_hook_that_hangs_holds_up_nobody(operator: Operator, redis_url: str, tmp_path: Path) -> None:
    """The others of its batch are recorded at once; the hard limit ends the hook, and it is counted."""
    calls = tmp_path / "calls"
    others = enqueued(operator, *batches.names(12))
    enqueued(operator, "hang-1", *(f"more-{number}" for number in range(5)))
    quick = {
        "CHIO_SETTLEMENT_MAX_RETRIES": "1",
        "CHIO_SETTLEMENT_INITIAL_BACKOFF_MS": "50",
        "CHIO_SOFT_TIME_LIMIT_S": "2",
        "CHIO_HARD_TIME_LIMIT_S": "4",
        "CHIO_LEASE_MS": "2000",
    }

    with WorkerProcess(tmp_path / "w", redis_url, environ={**quick, **moody_hook.environ_of(calls)}):
        poll(lambda: operator.settled() == 17, LIMIT_S, "the others to settle")
        still_hangs = operator.storage.jobs.rows(JobState.LEASED, 10)
        poll(lambda: operator.in_flight() == 0, LIMIT_S, "the hanging one to end")

    assert [row.job_id for row in still_hangs] == ["hang-1"]
    assert {begins(calls)[other] for other in others} == {1}
    assert [record.receipt_id for record in operator.storage.dead_letters.list()] == ["hang-1"]


def test_a_batch_with_rubbish_in_it(operator: Operator, redis_url: str, tmp_path: Path) -> None:
    """Pairs that are none are quarantined one by one, a message that is no batch whole; the rest settles."""
    good = [operator.admit(receipt).job_id for receipt in ("a", "b")]
    for jobs in ([[good[0], 0], "rubbish", ["x", -1], [good[1], 0]], "no batch"):
        operator.app.send_task("chio.settle.observe_many", kwargs={"jobs": jobs}, queue="settlement")

    with WorkerProcess(tmp_path / "w", redis_url):
        poll(lambda: operator.settled() == 2, LIMIT_S, "the good ones to settle")
        poll(lambda: len(operator.storage.quarantine.list(10)) == 3, LIMIT_S, "the others to be kept")

    assert {entry.reason for entry in operator.storage.quarantine.list(10)} == {"invalid_message:jobs"}


def test_deleting_the_brokers_keys_loses_no_job_of_a_batch(operator: Operator, redis_url: str, tmp_path: Path) -> None:
    """Batch messages vanish while jobs wait in them: the watermark finds the rows, and each job is asked about once."""
    calls = tmp_path / "calls"
    receipts = enqueued(operator, *batches.names(300), size=50)
    slow = {"CHIO_BATCH_CONCURRENCY": "4", **moody_hook.environ_of(calls, 0.02)}
    with WorkerProcess(tmp_path / "w", redis_url, environ=slow):
        poll(lambda: operator.settled() > 0, LIMIT_S, "some to settle")
        with redis.Redis.from_url(redis_url) as client:
            deleted = sum(client.delete(key) for key in client.scan_iter("chio:broker:*"))
        poll(lambda: operator.settled() == 300, LIMIT_S, "all to settle")

    assert deleted > 0
    assert begins(calls) == Counter(receipts)


def test_a_draining_worker_gives_back_what_it_has_not_begun(operator: Operator, redis_url: str, tmp_path: Path) -> None:
    """SIGTERM in mid-batch: the worker ends in order, and another one settles the rest, each job asked about once."""
    calls = tmp_path / "calls"
    receipts = enqueued(operator, *batches.names(200), size=200)
    slow = {"CHIO_BATCH_CONCURRENCY": "4", "CHIO_CONCURRENCY": "1", **moody_hook.environ_of(calls, 0.1)}
    with WorkerProcess(tmp_path / "w1", redis_url, environ=slow) as worker:
        poll(lambda: operator.settled() > 0, LIMIT_S, "some to settle")
        worker.terminate()
        code = worker.wait(LIMIT_S)
    before = operator.settled()

    with WorkerProcess(tmp_path / "w2", redis_url, environ={**slow, "TEST_HOOK_SECONDS": "0"}):
        poll(lambda: operator.settled() == 200, LIMIT_S, "the rest to settle")

    assert code == 0
    assert before < 200
    assert begins(calls) == Counter(receipts)


def test_a_batch_keeps_many_requests_on_their_way(redis_url: str, tmp_path: Path) -> None:
    """The HTTP rail is asked on the loop: every receipt has one effect, and those that failed at first were retried."""
    script = RailScript.from_document({"tools": {"flaky.tool": ["fail:1"]}})
    with fleet.running(tmp_path, redis_url, script=script) as deployment:
        jobs = [fleet.settlement(name) for name in batches.names(100)]
        jobs += [fleet.settlement(f"flaky-{number}", "flaky.tool") for number in range(20)]
        enqueue.enqueue_many(deployment.operator.app, deployment.storage.jobs, jobs, PACKED)
        deployment.worker().wait_until_ready()
        deployment.wait_until_idle()
        tally = deployment.rail.tally()

    assert len(tally.effects_per_key) == 120
    assert set(tally.effects_per_key.values()) == {1}
    assert {tally.requests_per_key[f"flaky-{number}"] for number in range(20)} == {2}
