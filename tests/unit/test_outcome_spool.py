"""Outcomes that the ledger could not take wait on disk and are recorded while nobody has begun the next attempt."""

import dataclasses
import stat
from pathlib import Path

import pytest

from reliability.errors import InvalidRecordError
from reliability.failures import SettlementFailureCode, SettlementFailureReason
from storage.jobs import Claim, ClaimCause, FinishedAs, JobState
from tasks import step_codec, steps
from tasks.recording import Outcome
from tests.support import backends, builders, claims
from tests.support.backends import Backend
from worker.outcome_spool import FileSpool, LateRecorder, outcome_in, text_of

LEASE_MS = 10_000
NOW_MS = 1_750_000_100_000
SETTLED = steps.Done(finished_as=FinishedAs.SETTLED)
REASON = SettlementFailureReason.from_detail(SettlementFailureCode.RPC, "the secret detail")
RETRY = steps.RetryAfter(attempt=1, delay_ms=5_000, reason=REASON, max_retries=5)
STEPS: dict[str, steps.Step] = {
    "done": SETTLED,
    "retry": RETRY,
    "retry with an entry": dataclasses.replace(RETRY, pending=builders.indeterminate()),
    "deferred": steps.Defer(attempt=0, delay_ms=1_000, why="circuit open"),
    "dead": steps.DeadLettered(record=builders.dead_letter()),
    "pending": steps.AwaitReceipt(request=builders.pending()),
}


@pytest.fixture
def spool(tmp_path: Path) -> FileSpool:
    """Give a spool with room for three."""
    return FileSpool(tmp_path / "spool", 3, lambda: NOW_MS)


@pytest.fixture
def backend() -> Backend:
    """Give stores in memory: what `resume` does is the contract suite's matter."""
    return backends.memory()


def claimed(backend: Backend, job_id: str = "rcpt-1") -> Claim:
    """Admit and claim a job with a short lease."""
    lease = builders.lease(lease_ms=LEASE_MS)
    return builders.admitted_and_claimed(backend.storage.jobs, builders.job(job_id), by=lease)


def flush(spool: FileSpool, backend: Backend) -> None:
    """Have a pump record what waits."""
    LateRecorder(spool, backend.storage, LEASE_MS).flush()


@pytest.mark.parametrize("name", STEPS)
def test_an_outcome_is_read_as_it_was_written(name: str) -> None:
    """Every step comes back from disk as it was, with its claim's identity."""
    claim = claims.settlement_claim(attempt=3, cause=ClaimCause.ESCALATED)

    found = outcome_in(text_of(Outcome(claim, STEPS[name]), NOW_MS), NOW_MS)

    assert found == Outcome(dataclasses.replace(claim, payload=b""), STEPS[name])


def test_no_payload_and_no_detail_reaches_the_disk(spool: FileSpool) -> None:
    """What lies on disk holds neither what was settled nor why it failed, and nobody else may read it."""
    claim = claims.settlement_claim(payload=b'{"secret":"payload"}')

    assert spool.keep(Outcome(claim, RETRY))

    (path,) = spool.entries()
    assert "secret" not in path.read_text(encoding="utf-8")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_full_spool_takes_nothing_more(spool: FileSpool) -> None:
    """Past its bound the spool says no, so that the attempt fails in the open."""
    kept = [spool.keep(Outcome(claims.settlement_claim(receipt_id=f"rcpt-{n}"), SETTLED)) for n in range(4)]

    assert kept == [True, True, True, False]
    assert len(spool) == 3


def test_a_spool_without_a_disk_says_so(tmp_path: Path) -> None:
    """A folder that cannot be made is no reason to raise where an outcome is at stake."""
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    spool = FileSpool(tmp_path / "file" / "spool", 3, lambda: NOW_MS)

    assert not spool.keep(Outcome(claims.settlement_claim(), SETTLED))
    assert len(spool) == 0


def test_what_waited_is_recorded_after_the_lease(spool: FileSpool, backend: Backend) -> None:
    """An outcome is recorded though its lease ran out and a pump woke the job, and no attempt counts as failed."""
    spool.keep(Outcome(claimed(backend), SETTLED))
    backend.travel(LEASE_MS + 1)
    backend.storage.jobs.due(10)

    flush(spool, backend)

    assert backend.storage.jobs.ending("rcpt-1") is FinishedAs.SETTLED
    assert len(spool) == 0


def test_a_late_retry_waits_for_the_pump(spool: FileSpool, backend: Backend) -> None:
    """A retry has no message of its own any more: its row is parked, so that the pump sends one when it is due."""
    spool.keep(Outcome(claimed(backend), RETRY))

    flush(spool, backend)

    row = backend.storage.jobs.get("rcpt-1")
    assert row is not None
    assert (row.state, row.attempt, row.due_at_ms) == (JobState.PARKED, 1, backend.now_ms() + 5_000)


def test_the_time_on_disk_counts_as_waiting() -> None:
    """A retry that waited on disk is due when it would have been."""
    outcome = Outcome(claims.settlement_claim(), RETRY)

    found = outcome_in(text_of(outcome, NOW_MS), NOW_MS + 4_000)
    long_after = outcome_in(text_of(outcome, NOW_MS), NOW_MS + 60_000)

    assert found.step == dataclasses.replace(RETRY, delay_ms=1_000)
    assert long_after.step == dataclasses.replace(RETRY, delay_ms=0)


def test_an_outcome_that_came_too_late_is_dropped(spool: FileSpool, backend: Backend) -> None:
    """Once the next attempt has begun, the old outcome changes nothing."""
    spool.keep(Outcome(claimed(backend), SETTLED))
    backend.travel(LEASE_MS + 1)
    backend.storage.jobs.due(10)
    other = builders.claimed(backend.storage.jobs)

    flush(spool, backend)

    assert backend.storage.jobs.ending("rcpt-1") is None
    assert backend.storage.jobs.renew([other], LEASE_MS) == [True]
    assert len(spool) == 0


def test_a_file_that_cannot_be_read_blocks_nothing(spool: FileSpool, backend: Backend, tmp_path: Path) -> None:
    """A damaged file is dropped, and the outcomes behind it are recorded."""
    spool.keep(Outcome(claimed(backend), SETTLED))
    (tmp_path / "spool" / "0.json").write_text("{torn", encoding="utf-8")

    flush(spool, backend)

    assert backend.storage.jobs.ending("rcpt-1") is FinishedAs.SETTLED
    assert len(spool) == 0


@pytest.mark.parametrize("value", [None, {}, {"step": "unknown"}, {"step": "done"}, {"step": "done", "finished_as": 7}])
def test_a_step_that_is_none_is_refused(value: object) -> None:
    """A step of another version is refused with a name and without its content."""
    with pytest.raises(InvalidRecordError):
        step_codec.from_wire(value)
