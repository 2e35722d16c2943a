"""What operators can do to the ledger: look, count, hold, release, cancel, replay."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from reliability.errors import InvalidInputError, StaleClaimError
from storage.jobs import (
    Admitted,
    Await,
    Bury,
    Claim,
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
    WakeUp,
    WakeUpCause,
)
from tests.support import builders
from tests.support.backends import Backend

SETTLED = Finish(finished_as=FinishedAs.SETTLED)


def buried(backend: Backend, job_id: str = "rcpt-1") -> Claim:
    """Admit a job and let it die."""
    claim = builders.admitted_and_claimed(backend.storage.jobs, builders.job(job_id))
    backend.storage.jobs.record(claim, Bury(record=builders.dead_letter(job_id)))
    return claim


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


def test_replayed_job_starts_over(backend: Backend) -> None:
    """A dead job comes back at attempt 0 with its bytes; its dead letter is gone and it is in flight again."""
    buried(backend)

    wake = backend.storage.jobs.replay("rcpt-1")

    row = backend.storage.jobs.get("rcpt-1")
    expected = WakeUp(job_id="rcpt-1", kind=JobKind.SETTLEMENT, queue="settlement", attempt=0, cause=WakeUpCause.PARKED)
    assert wake == expected
    assert row is not None
    assert (row.state, row.attempt, row.first_attempt_at_ms) == (JobState.OUTSTANDING, 0, None)
    assert row.finalized_at == builders.FINALIZED_AT
    assert backend.storage.dead_letters.get("rcpt-1") is None
    assert backend.storage.dead_letters.unpublished_count() == 0
    assert backend.storage.jobs.counts(JobKind.SETTLEMENT).dead == 0
    assert builders.claimed(backend.storage.jobs).payload == builders.job().payload


def test_replayed_job_goes_on_with_its_version(backend: Backend) -> None:
    """No claim or receipt from before the burial fits the row that came back."""
    claim = buried(backend)
    backend.storage.jobs.replay("rcpt-1")
    again = builders.claimed(backend.storage.jobs)

    assert again.version == claim.version + 1
    assert backend.storage.jobs.conclude("rcpt-1", claim.version, SETTLED) is False
    with pytest.raises(StaleClaimError):
        backend.storage.jobs.record(claim, SETTLED)


def test_replayed_job_may_die_again(backend: Backend) -> None:
    """A replayed job that fails again leaves a new dead letter."""
    buried(backend)
    backend.storage.jobs.replay("rcpt-1")
    second = builders.dead_letter(attempts=9)

    backend.storage.jobs.record(builders.claimed(backend.storage.jobs), Bury(record=second))

    assert backend.storage.dead_letters.get("rcpt-1") == second


def test_replay_without_a_dead_job_is_none(backend: Backend) -> None:
    """There is nothing to replay of an unknown id, of a living job, or of a record without a job."""
    backend.storage.jobs.admit(builders.job("alive"))
    backend.storage.dead_letters.append(builders.dead_letter("appended"))

    assert [backend.storage.jobs.replay(name) for name in ("nobody", "alive", "appended")] == [None, None, None]
    assert backend.storage.dead_letters.count() == 1


def test_one_of_many_replays_wins(backend: Backend) -> None:
    """Of 16 operators that replay one dead letter exactly one gets a wake-up."""
    buried(backend)

    with ThreadPoolExecutor(16) as threads:
        wakes = list(threads.map(lambda _: backend.storage.jobs.replay("rcpt-1"), range(16)))

    assert sum(wake is not None for wake in wakes) == 1


def test_cleared_job_may_be_admitted_again(backend: Backend) -> None:
    """Clearing a dead letter forgets its id; the cleared job stays counted as dead."""
    buried(backend)
    backend.storage.dead_letters.clear("rcpt-1")

    assert backend.storage.jobs.admit(builders.job(payload=b"other")) == Admitted()
    assert backend.storage.jobs.counts(JobKind.SETTLEMENT).dead == 1


def test_unknown_row_is_none(backend: Backend) -> None:
    """There is no row of an unknown id."""
    assert backend.storage.jobs.get("nobody") is None


@pytest.mark.parametrize("state", list(JobState))
def test_rows_lists_one_state(backend: Backend, state: JobState) -> None:
    """Each state lists exactly its rows."""
    jobs = backend.storage.jobs
    jobs.admit(builders.job(JobState.OUTSTANDING))
    builders.admitted_and_claimed(jobs, builders.job(JobState.LEASED))
    parked = builders.admitted_and_claimed(jobs, builders.job(JobState.PARKED))
    jobs.record(parked, Reschedule(attempt=1, delay_ms=1_000, publishes=False))
    delivery = builders.admitted_and_claimed(jobs, builders.delivery_job(message_id=JobState.AWAITING))
    jobs.record(delivery, Await(request=builders.pending(JobState.AWAITING)))
    jobs.admit(builders.job(JobState.HELD))
    jobs.hold(JobState.HELD)

    rows = jobs.rows(state, 10)

    assert [(row.state, row.job_id.removeprefix("delivery:acme:")) for row in rows] == [(state, state.value)]


def test_rows_come_soonest_due_first(backend: Backend) -> None:
    """Parked rows are listed by when they are due, up to the limit."""
    jobs = backend.storage.jobs
    for name, delay_ms in (("late", 30_000), ("soon", 10_000), ("later", 20_000)):
        claim = builders.admitted_and_claimed(jobs, builders.job(name))
        jobs.record(claim, Reschedule(attempt=1, delay_ms=delay_ms, publishes=False))

    assert [row.job_id for row in jobs.rows(JobState.PARKED, 2)] == ["soon", "later"]


def test_rows_merge_the_queues(backend: Backend) -> None:
    """Outstanding rows of all queues are listed together, soonest due first."""
    jobs = backend.storage.jobs
    for name, queue, delay_ms in (("c", "x", 30_000), ("a", "y", 10_000), ("b", "x", 20_000)):
        claim = builders.admitted_and_claimed(jobs, builders.job(name, queue=queue))
        jobs.record(claim, Reschedule(attempt=1, delay_ms=delay_ms, publishes=True))

    assert [row.job_id for row in jobs.rows(JobState.OUTSTANDING, 2)] == ["a", "b"]


def test_rows_limit_is_checked(backend: Backend) -> None:
    """A listing of nothing is an error."""
    with pytest.raises(InvalidInputError):
        backend.storage.jobs.rows(JobState.PARKED, 0)


def test_counts_are_kept_per_kind(backend: Backend) -> None:
    """Settlements and deliveries are counted apart, and a kind without jobs is all zeros."""
    backend.storage.jobs.admit(builders.job())

    settlements, deliveries = (backend.storage.jobs.counts(kind) for kind in JobKind)

    assert (settlements.admitted, deliveries.admitted) == (1, 0)
    assert set(deliveries.in_flight.values()) == set(deliveries.finished.values()) == {0}
    assert set(deliveries.in_flight) == set(JobState)
