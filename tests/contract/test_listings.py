"""What `get`, `rows` and `counts` show of the ledger."""

import pytest

from reliability.errors import InvalidInputError
from storage.jobs import (
    Await,
    Finish,
    FinishedAs,
    JobKind,
    JobState,
    Reschedule,
)
from tests.support import builders
from tests.support.backends import Backend

SETTLED = Finish(finished_as=FinishedAs.SETTLED)


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


def test_finalisation_times_come_in_the_order_asked(backend: Backend) -> None:
    """Each id is answered in its place, an unknown one with None; nothing asked is nothing answered."""
    backend.storage.jobs.admit_many([builders.job("a", finalized_at=2), builders.job("b", finalized_at=1)])

    assert backend.storage.jobs.finalized_at_many(["a", "nobody", "b"]) == [2, None, 1]
    assert backend.storage.jobs.finalized_at_many([]) == []


def test_finalisation_times_are_asked_for_one_batch(backend: Backend) -> None:
    """More ids than a claim batch may have are refused."""
    with pytest.raises(InvalidInputError):
        backend.storage.jobs.finalized_at_many(["id"] * 1_025)
