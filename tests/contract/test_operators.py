"""What operators can do to a job in flight: hold, release, cancel."""

import pytest

from reliability.errors import StaleClaimError
from storage.jobs import (
    Await,
    ClaimCause,
    Duplicate,
    DuplicateOf,
    Finish,
    FinishedAs,
    JobKind,
    JobState,
    Refusal,
    Refused,
    Reschedule,
    Transition,
    WakeUpCause,
)
from tests.support import builders
from tests.support.backends import Backend

SETTLED = Finish(finished_as=FinishedAs.SETTLED)


def state_of(backend: Backend, job_id: str = "rcpt-1") -> JobState | None:
    """Return the row's state."""
    row = backend.storage.jobs.get(job_id)
    return row.state if row else None


def test_held_job_is_neither_claimed_nor_woken(backend: Backend) -> None:
    """A held row refuses its message and is left alone by the pump."""
    backend.storage.jobs.admit(builders.job())

    assert backend.storage.jobs.hold("rcpt-1") is True

    backend.travel(3_600_000)
    backend.storage.jobs.mark_consumed("settlement", backend.now_ms())
    assert state_of(backend) is JobState.HELD
    assert backend.storage.jobs.claim("rcpt-1", 0, builders.lease()) == Refused(why=Refusal.HELD)
    assert backend.storage.jobs.due(10) == []


def test_hold_of_a_held_job_changes_nothing(backend: Backend) -> None:
    """Holding twice is holding once."""
    backend.storage.jobs.admit(builders.job())

    assert [backend.storage.jobs.hold("rcpt-1") for _ in range(2)] == [True, True]
    assert backend.storage.jobs.counts(JobKind.SETTLEMENT).in_flight[JobState.HELD] == 1


def test_hold_of_a_gone_job_is_false(backend: Backend) -> None:
    """There is nothing to hold of an id that is not in the ledger."""
    assert backend.storage.jobs.hold("nobody") is False


def test_running_attempt_finishes_and_its_retry_is_held(backend: Backend) -> None:
    """A hold lets the attempt that runs end as it will, and stops what follows."""
    jobs = backend.storage.jobs
    first, second = (builders.admitted_and_claimed(jobs, builders.job(name)) for name in "ab")
    jobs.hold("a")
    jobs.hold("b")

    jobs.record(first, SETTLED)
    jobs.record(second, Reschedule(attempt=1, delay_ms=0, publishes=True))

    assert (state_of(backend, "a"), state_of(backend, "b")) == (None, JobState.HELD)
    assert jobs.claim("b", 1, builders.lease()) == Refused(why=Refusal.HELD)


def test_held_job_whose_worker_died_is_held(backend: Backend) -> None:
    """A lease that expires under a hold leads to held, and the release still tells of the failed attempt."""
    backend.storage.jobs.admit(builders.job())
    builders.claimed(backend.storage.jobs, by=builders.lease(lease_ms=1_000))
    backend.storage.jobs.hold("rcpt-1")
    backend.travel(1_000)

    refused = backend.storage.jobs.claim("rcpt-1", 0, builders.lease())
    taken = backend.storage.jobs.due(10)
    held = state_of(backend)
    backend.storage.jobs.release("rcpt-1")

    assert (refused, taken, held) == (Refused(why=Refusal.HELD), [], JobState.HELD)
    assert builders.claimed(backend.storage.jobs).cause is ClaimCause.LEASE_EXPIRED


def test_released_job_is_due_now(backend: Backend) -> None:
    """A released job is parked and due, whatever its delay was."""
    claim = builders.admitted_and_claimed(backend.storage.jobs)
    backend.storage.jobs.record(claim, Reschedule(attempt=1, delay_ms=3_600_000, publishes=True))
    backend.storage.jobs.hold("rcpt-1")

    assert backend.storage.jobs.release("rcpt-1") is True

    assert state_of(backend) is JobState.PARKED
    assert [(wake.attempt, wake.cause) for wake in backend.storage.jobs.due(10)] == [(1, WakeUpCause.PARKED)]
    builders.claimed(backend.storage.jobs, attempt=1)


def test_release_of_what_is_not_held_is_false(backend: Backend) -> None:
    """Only a held job is released."""
    backend.storage.jobs.admit(builders.job())
    builders.admitted_and_claimed(backend.storage.jobs, builders.job("running"))

    assert [backend.storage.jobs.release(name) for name in ("rcpt-1", "running", "nobody")] == [False, False, False]


def test_release_takes_back_the_hold_of_a_running_job(backend: Backend) -> None:
    """A hold that was taken back before the attempt ended stops nothing."""
    claim = builders.admitted_and_claimed(backend.storage.jobs)
    backend.storage.jobs.hold("rcpt-1")

    assert backend.storage.jobs.release("rcpt-1") is True

    backend.storage.jobs.record(claim, Reschedule(attempt=1, delay_ms=0, publishes=True))
    assert state_of(backend) is JobState.OUTSTANDING


@pytest.mark.parametrize(
    "transition",
    [
        pytest.param(Reschedule(attempt=0, delay_ms=0, publishes=True), id="reschedule"),
        pytest.param(Await(request=builders.pending()), id="await"),
    ],
)
def test_hold_counts_once(backend: Backend, transition: Transition) -> None:
    """A job that was held when its attempt ended and then released is not held again by the old order."""
    jobs = backend.storage.jobs
    claim = builders.admitted_and_claimed(jobs, builders.delivery_job())
    jobs.hold(claim.job_id)
    jobs.record(claim, transition)
    jobs.release(claim.job_id)

    again = builders.claimed(jobs, claim.job_id)
    jobs.record(again, Reschedule(attempt=1, delay_ms=0, publishes=True))

    assert state_of(backend, claim.job_id) is JobState.OUTSTANDING


@pytest.mark.parametrize("hold_first", [True, False])
def test_held_delivery_that_awaited_is_verified_when_released(backend: Backend, hold_first: bool) -> None:
    """A delivery held while it waits for its receipt is not simply sent again: its next claim is an escalated one."""
    claim = builders.admitted_and_claimed(backend.storage.jobs, builders.delivery_job())
    if hold_first:
        backend.storage.jobs.hold(claim.job_id)
    backend.storage.jobs.record(claim, Await(request=builders.pending()))
    backend.storage.jobs.hold(claim.job_id)
    assert state_of(backend, claim.job_id) is JobState.HELD

    backend.storage.jobs.release(claim.job_id)

    assert builders.claimed(backend.storage.jobs, claim.job_id).cause is ClaimCause.ESCALATED


def test_cancelled_job_is_finished(backend: Backend) -> None:
    """A cancelled job is gone, counted, remembered as a duplicate, and resolved in reconciliation."""
    claim = builders.admitted_and_claimed(backend.storage.jobs, builders.delivery_job())
    backend.storage.jobs.record(claim, Await(request=builders.pending()))

    assert backend.storage.jobs.cancel(claim.job_id) is True

    assert backend.storage.jobs.get(claim.job_id) is None
    assert backend.storage.jobs.counts(JobKind.DELIVERY).finished[FinishedAs.CANCELLED] == 1
    assert backend.storage.jobs.admit(builders.delivery_job()) == Duplicate(of=DuplicateOf.FINISHED)
    assert backend.storage.jobs.ending(claim.job_id) is FinishedAs.CANCELLED
    assert list(backend.storage.reconciliation.queued_requests()) == []


def test_running_or_gone_job_is_not_cancelled(backend: Backend) -> None:
    """An attempt that runs keeps its job."""
    claim = builders.admitted_and_claimed(backend.storage.jobs)

    assert (backend.storage.jobs.cancel("rcpt-1"), backend.storage.jobs.cancel("nobody")) == (False, False)
    backend.storage.jobs.record(claim, SETTLED)


def test_job_whose_worker_died_is_cancelled(backend: Backend) -> None:
    """An expired lease is no running attempt."""
    backend.storage.jobs.admit(builders.job())
    claim = builders.claimed(backend.storage.jobs, by=builders.lease(lease_ms=1_000))
    backend.travel(1_000)

    assert backend.storage.jobs.cancel("rcpt-1") is True
    with pytest.raises(StaleClaimError):
        backend.storage.jobs.record(claim, SETTLED)
