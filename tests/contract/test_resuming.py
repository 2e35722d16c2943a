"""What `resume` promises: a lease that ran out is taken back as long as nobody else has begun."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from reliability.errors import InvalidInputError, StaleClaimError
from storage.jobs import Claim, ClaimCause, Finish, FinishedAs, JobKind, JobState, Refusal, Refused, Reschedule
from tests.support import builders
from tests.support.backends import Backend

SETTLED = Finish(finished_as=FinishedAs.SETTLED)
LEASE_MS = 10_000


def run_out(backend: Backend) -> Claim:
    """Claim a job and let its lease run out, so that a pump has woken it."""
    claim = builders.admitted_and_claimed(backend.storage.jobs, by=builders.lease(lease_ms=LEASE_MS))
    backend.travel(LEASE_MS + 1)
    assert [wake_up.job_id for wake_up in backend.storage.jobs.due(10)] == [claim.job_id]
    return claim


def test_a_lease_that_ran_out_is_taken_back(backend: Backend) -> None:
    """A job that was woken after its lease ran out is leased again, and its outcome is recorded."""
    jobs, claim = backend.storage.jobs, run_out(backend)

    assert jobs.resume(claim, LEASE_MS)

    row = jobs.get(claim.job_id)
    assert row is not None
    assert (row.state, row.attempt, row.version) == (JobState.LEASED, 0, claim.version)
    jobs.record(claim, SETTLED)
    assert jobs.ending(claim.job_id) is FinishedAs.SETTLED
    assert jobs.counts(JobKind.SETTLEMENT).retried == 0


def test_a_lease_that_nobody_noticed_is_taken_back(backend: Backend) -> None:
    """A lease that ran out before any pump looked is taken back too, and no pump wakes the job any more."""
    jobs = backend.storage.jobs
    claim = builders.admitted_and_claimed(jobs, by=builders.lease(lease_ms=LEASE_MS))
    backend.travel(LEASE_MS + 1)

    assert jobs.resume(claim, LEASE_MS)

    assert jobs.due(10) == []
    jobs.record(claim, SETTLED)


def test_the_message_that_woke_the_job_finds_nothing(backend: Backend) -> None:
    """Whoever comes with the wake-up's message is told that the job is leased."""
    jobs, claim = backend.storage.jobs, run_out(backend)
    jobs.resume(claim, LEASE_MS)

    assert jobs.claim(claim.job_id, 0, builders.lease()) == Refused(why=Refusal.LEASED)


def test_a_job_that_was_claimed_since_is_not_taken_back(backend: Backend) -> None:
    """Once another worker has claimed the job, the old claim is worth nothing, and the new one holds."""
    jobs, claim = backend.storage.jobs, run_out(backend)
    other = builders.claimed(jobs, claim.job_id)

    assert not jobs.resume(claim, LEASE_MS)

    assert other.cause is ClaimCause.LEASE_EXPIRED
    with pytest.raises(StaleClaimError):
        jobs.record(claim, SETTLED)
    jobs.record(other, SETTLED)


def test_what_was_recorded_is_not_taken_back(backend: Backend) -> None:
    """A claim whose outcome is in the ledger cannot be resumed, whether the job ended or goes on."""
    jobs = backend.storage.jobs
    ended = builders.admitted_and_claimed(jobs, builders.job("rcpt-1"))
    jobs.record(ended, SETTLED)
    again = builders.admitted_and_claimed(jobs, builders.job("rcpt-2"))
    jobs.record(again, Reschedule(attempt=1, delay_ms=0, publishes=True))

    assert not jobs.resume(ended, LEASE_MS)
    assert not jobs.resume(again, LEASE_MS)


def test_a_job_of_another_life_is_not_taken_back(backend: Backend) -> None:
    """A job that was dead, cleared and admitted again has the old version and not the old token."""
    jobs = backend.storage.jobs
    old = builders.admitted_and_claimed(jobs)
    jobs.cancel(old.job_id)
    backend.travel(LEASE_MS + 1)
    jobs.due(10)
    jobs.cancel(old.job_id)
    backend.travel(backend.options.dedup_ttl_s * 1_000 + 1)
    new = builders.admitted_and_claimed(jobs)

    assert new.version == old.version
    assert not jobs.resume(old, LEASE_MS)


def test_a_hold_that_took_effect_takes_effect_again(backend: Backend) -> None:
    """A job that an operator held while it ran is held when its late outcome asks for another attempt."""
    jobs = backend.storage.jobs
    claim = builders.admitted_and_claimed(jobs, by=builders.lease(lease_ms=LEASE_MS))
    jobs.hold(claim.job_id)
    backend.travel(LEASE_MS + 1)
    jobs.due(10)

    assert jobs.resume(claim, LEASE_MS)
    jobs.record(claim, Reschedule(attempt=1, delay_ms=0, publishes=True))

    row = jobs.get(claim.job_id)
    assert row is not None
    assert (row.state, row.attempt) == (JobState.HELD, 1)


def test_a_resumed_lease_runs_out_like_any(backend: Backend) -> None:
    """Who resumes and dies is noticed after the lease, and the attempt counts as failed then."""
    jobs, claim = backend.storage.jobs, run_out(backend)
    jobs.resume(claim, LEASE_MS)
    backend.travel(LEASE_MS + 1)

    woken = jobs.due(10)

    assert [wake_up.job_id for wake_up in woken] == [claim.job_id]
    assert builders.claimed(jobs, claim.job_id).cause is ClaimCause.LEASE_EXPIRED


def test_of_resuming_and_claiming_one_wins(backend: Backend) -> None:
    """Of the old holder and a new worker at the same moment exactly one gets the job."""
    jobs, claim = backend.storage.jobs, run_out(backend)

    with ThreadPoolExecutor(2) as threads:
        resumed = threads.submit(jobs.resume, claim, LEASE_MS)
        other = threads.submit(jobs.claim, claim.job_id, 0, builders.lease())

    assert resumed.result() is not isinstance(other.result(), Claim)


def test_the_counts_stay_right(backend: Backend) -> None:
    """A resumed job counts as leased, once."""
    jobs, claim = backend.storage.jobs, run_out(backend)

    jobs.resume(claim, LEASE_MS)

    in_flight = {state: count for state, count in jobs.counts(JobKind.SETTLEMENT).in_flight.items() if count}
    assert in_flight == {JobState.LEASED: 1}


def test_a_lease_out_of_range_is_refused(backend: Backend) -> None:
    """A lease that is no lease is refused before anything changes."""
    claim = builders.admitted_and_claimed(backend.storage.jobs)

    with pytest.raises(InvalidInputError):
        backend.storage.jobs.resume(claim, 0)
