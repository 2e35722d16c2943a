"""What `record` promises, transition by transition."""

import dataclasses
from collections.abc import Callable

import pytest

from reliability.errors import CapacityReachedError, DeadLetterConflictError, InvalidInputError, StaleClaimError
from storage.jobs import (
    Await,
    Bury,
    Claim,
    ClaimCause,
    Finish,
    FinishedAs,
    JobKind,
    JobState,
    Reschedule,
    Transition,
)
from storage.options import LedgerOptions
from tests.contract.conftest import MakeBackend
from tests.support import builders
from tests.support.backends import Backend

SETTLED = Finish(finished_as=FinishedAs.SETTLED)
TRANSITIONS = [
    pytest.param(SETTLED, id="finish"),
    pytest.param(Reschedule(attempt=1, delay_ms=0, publishes=True), id="reschedule"),
    pytest.param(Reschedule(attempt=1, delay_ms=0, publishes=True, pending=builders.indeterminate()), id="pending"),
    pytest.param(Bury(record=builders.dead_letter("delivery:acme:msg-1")), id="bury"),
    pytest.param(Await(request=builders.pending()), id="await"),
]


def claimed_delivery(backend: Backend) -> Claim:
    """Admit and claim the delivery of message msg-1 to acme."""
    return builders.admitted_and_claimed(backend.storage.jobs, builders.delivery_job())


@pytest.mark.parametrize("finished_as", list(FinishedAs))
def test_finished_job_is_gone_and_counted(backend: Backend, finished_as: FinishedAs) -> None:
    """A finished job leaves no row and no payload, is counted under its name, and tells how it ended."""
    claim = builders.admitted_and_claimed(backend.storage.jobs)

    backend.storage.jobs.record(claim, Finish(finished_as=finished_as))

    counts = backend.storage.jobs.counts(JobKind.SETTLEMENT)
    assert backend.storage.jobs.get("rcpt-1") is None
    assert {end for end, number in counts.finished.items() if number} == {finished_as}
    assert set(counts.in_flight.values()) == {0}
    assert backend.storage.jobs.ending("rcpt-1") is finished_as


def test_finish_resolves_what_reconciliation_keeps(backend: Backend) -> None:
    """A finished delivery leaves no open entry, under neither of its keys."""
    claim = claimed_delivery(backend)
    backend.storage.jobs.record(
        claim, Reschedule(attempt=1, delay_ms=0, publishes=True, pending=builders.indeterminate())
    )
    backend.storage.reconciliation.enqueue(builders.pending())
    backend.storage.reconciliation.enqueue(builders.pending("other"))

    backend.storage.jobs.record(
        builders.claimed(backend.storage.jobs, claim.job_id, 1), Finish(finished_as=FinishedAs.CONFIRMED)
    )

    assert list(backend.storage.reconciliation.queued_requests()) == [builders.pending("other")]
    assert backend.storage.reconciliation.enqueue(builders.pending()) is False


def test_finishing_many_resolves_what_reconciliation_keeps(backend: Backend) -> None:
    """In a batch of settlements and deliveries each leaves no open entry, and those of other jobs stay."""
    jobs, kept = backend.storage.jobs, backend.storage.reconciliation
    claims = [builders.admitted_and_claimed(jobs), claimed_delivery(backend)]
    kept.enqueue(builders.pending())
    kept.enqueue(builders.pending("other"))

    errors = jobs.record_many([(claim, Finish(finished_as=FinishedAs.CONFIRMED)) for claim in claims])

    assert errors == [None, None]
    assert list(kept.queued_requests()) == [builders.pending("other")]
    assert jobs.counts(JobKind.DELIVERY).finished[FinishedAs.CONFIRMED] == 1


@pytest.mark.parametrize(
    "publishes, state",
    [pytest.param(True, JobState.OUTSTANDING, id="published"), pytest.param(False, JobState.PARKED, id="parked")],
)
def test_rescheduled_job_is_due_after_the_delay(backend: Backend, publishes: bool, state: JobState) -> None:
    """A retry raises the attempt and is due after its delay, outstanding or parked as its publisher says."""
    claim = builders.admitted_and_claimed(backend.storage.jobs)
    before_ms = backend.now_ms()

    backend.storage.jobs.record(claim, Reschedule(attempt=1, delay_ms=30_000, publishes=publishes))

    row = backend.storage.jobs.get("rcpt-1")
    assert row is not None
    assert (row.state, row.attempt, row.owner, row.lease_until_ms) == (state, 1, None, None)
    assert backend.is_about(row.due_at_ms, before_ms + 30_000)
    assert backend.storage.jobs.counts(JobKind.SETTLEMENT).retried == 1


def test_deferred_job_spends_no_attempt(backend: Backend) -> None:
    """Rescheduling under the same number is no retry."""
    claim = builders.admitted_and_claimed(backend.storage.jobs)

    backend.storage.jobs.record(claim, Reschedule(attempt=0, delay_ms=0, publishes=True))

    assert builders.claimed(backend.storage.jobs).attempt == 0
    assert backend.storage.jobs.counts(JobKind.SETTLEMENT).retried == 0


def expired_claim(backend: Backend) -> Claim:
    """Claim an attempt in which a worker died."""
    builders.admitted_and_claimed(backend.storage.jobs, by=builders.lease(lease_ms=1_000))
    backend.travel(2_000)
    return builders.claimed(backend.storage.jobs)


def escalated_claim(backend: Backend) -> Claim:
    """Claim a delivery whose receipt did not come."""
    claim = claimed_delivery(backend)
    backend.storage.jobs.record(claim, Await(request=builders.pending()))
    (entry,) = backend.storage.reconciliation.queued_requests()
    backend.storage.reconciliation.resolve(entry.idempotency_key)
    return builders.claimed(backend.storage.jobs, claim.job_id)


@pytest.mark.parametrize(
    "claim_of, cause",
    [
        pytest.param(expired_claim, ClaimCause.LEASE_EXPIRED, id="a worker died in it"),
        pytest.param(escalated_claim, ClaimCause.ESCALATED, id="its receipt did not come"),
    ],
)
@pytest.mark.parametrize("held_meanwhile", [False, True])
@pytest.mark.parametrize("ran_out", [False, True])
def test_an_attempt_that_is_put_off_is_claimed_for_the_same_cause(
    backend: Backend, claim_of: Callable[[Backend], Claim], cause: ClaimCause, held_meanwhile: bool, ran_out: bool
) -> None:
    """Whoever claims it next must not ask the hook to act as if nobody had; once the attempt is spent it is due."""
    jobs, claim = backend.storage.jobs, claim_of(backend)
    assert claim.cause is cause
    if held_meanwhile:
        jobs.hold(claim.job_id)
    if ran_out:
        backend.travel(20_000)
        jobs.resume(claim, 10_000)

    jobs.record(claim, Reschedule(attempt=0, delay_ms=0, publishes=True))
    jobs.release(claim.job_id)
    again = builders.claimed(jobs, claim.job_id)
    jobs.record(again, Reschedule(attempt=1, delay_ms=0, publishes=True))

    assert again.cause is cause
    assert builders.claimed(jobs, claim.job_id, 1).cause is ClaimCause.DUE


def test_an_attempt_that_never_began_is_due_though_its_lease_ran_out(backend: Backend) -> None:
    """Who gives it back late knows that the hook was not asked, which a lease that runs out alone does not tell."""
    jobs = backend.storage.jobs
    claim = builders.admitted_and_claimed(jobs, by=builders.lease(lease_ms=1_000))
    backend.travel(2_000)
    jobs.due(10)
    jobs.resume(claim, 10_000)

    jobs.record(claim, Reschedule(attempt=0, delay_ms=0, publishes=True))

    assert builders.claimed(jobs).cause is ClaimCause.DUE


def test_reschedule_keeps_an_entry_that_is_queued(backend: Backend) -> None:
    """A second unknown outcome of one delivery leaves the first entry and its age."""
    claim = claimed_delivery(backend)
    first = builders.indeterminate()
    later = builders.indeterminate(at=builders.CREATED_AT.replace(hour=13))
    backend.storage.jobs.record(claim, Reschedule(attempt=1, delay_ms=0, publishes=True, pending=first))

    again = builders.claimed(backend.storage.jobs, claim.job_id, 1)
    backend.storage.jobs.record(again, Reschedule(attempt=2, delay_ms=0, publishes=True, pending=later))

    assert list(backend.storage.reconciliation.queued_requests()) == [first]


def test_buried_job_leaves_a_dead_letter_and_its_payload(backend: Backend) -> None:
    """A dead job has a record, a kept payload, an owed publication, and no row."""
    claim = builders.admitted_and_claimed(backend.storage.jobs)
    record = builders.dead_letter()

    backend.storage.jobs.record(claim, Bury(record=record))

    assert backend.storage.jobs.get("rcpt-1") is None
    assert backend.storage.dead_letters.get("rcpt-1") == record
    assert backend.storage.dead_letters.payload("rcpt-1") == builders.job().payload
    assert backend.storage.dead_letters.unpublished_count() == 1
    assert backend.storage.jobs.counts(JobKind.SETTLEMENT).dead == 1
    assert backend.storage.jobs.ending("rcpt-1") is None


def test_bury_resolves_what_reconciliation_keeps(backend: Backend) -> None:
    """An exhausted delivery moves from reconciliation to the dead letters."""
    claim = claimed_delivery(backend)
    backend.storage.reconciliation.enqueue(builders.indeterminate())

    backend.storage.jobs.record(claim, Bury(record=builders.dead_letter(claim.job_id)))

    assert backend.storage.reconciliation.counts() == {"indeterminate": 0, "pending_verification": 0}


def test_bury_over_the_same_record_ends_the_job(backend: Backend) -> None:
    """The same bytes in the store already are no conflict."""
    claim = builders.admitted_and_claimed(backend.storage.jobs)
    backend.storage.dead_letters.append(builders.dead_letter())

    backend.storage.jobs.record(claim, Bury(record=builders.dead_letter()))

    assert backend.storage.dead_letters.count() == 1
    assert backend.storage.jobs.get("rcpt-1") is None


def test_bury_over_another_record_changes_nothing(backend: Backend) -> None:
    """Two dead letters never exist for one receipt; the job stays claimed."""
    claim = builders.admitted_and_claimed(backend.storage.jobs)
    kept = builders.dead_letter(attempts=2)
    backend.storage.dead_letters.append(kept)

    with pytest.raises(DeadLetterConflictError) as raised:
        backend.storage.jobs.record(claim, Bury(record=builders.dead_letter(attempts=3)))

    assert raised.value.receipt_id == "rcpt-1"
    assert backend.storage.dead_letters.get("rcpt-1") == kept
    backend.storage.jobs.record(claim, SETTLED)


def test_awaiting_job_is_not_woken(backend: Backend) -> None:
    """A job that waits for its receipt has an entry in reconciliation and is never due."""
    claim = claimed_delivery(backend)

    backend.storage.jobs.record(claim, Await(request=builders.pending()))
    backend.storage.jobs.mark_consumed("delivery", backend.now_ms())
    backend.travel(86_400_000)

    row = backend.storage.jobs.get(claim.job_id)
    assert row is not None
    assert (row.state, row.owner) == (JobState.AWAITING, None)
    assert list(backend.storage.reconciliation.queued_requests()) == [builders.pending()]
    assert backend.storage.jobs.due(10) == []


def test_awaiting_again_queues_again(backend: Backend) -> None:
    """A delivery that is accepted again after its entry was resolved waits under a new entry, never under none."""
    claim = claimed_delivery(backend)
    backend.storage.reconciliation.enqueue(builders.pending())
    backend.storage.reconciliation.resolve(builders.pending().idempotency_key)

    backend.storage.jobs.record(claim, Await(request=builders.pending()))

    assert backend.storage.reconciliation.counts()["pending_verification"] == 1


@pytest.mark.parametrize(
    "transition",
    [
        pytest.param(Await(request=builders.pending()), id="await"),
        pytest.param(
            Reschedule(attempt=1, delay_ms=0, publishes=True, pending=builders.indeterminate()), id="reschedule"
        ),
    ],
)
def test_full_reconciliation_changes_nothing(make_backend: MakeBackend, transition: Transition) -> None:
    """A full queue refuses the transition: nothing is queued and the claim still holds."""
    backend = make_backend(LedgerOptions(reconciliation_capacity=1))
    backend.storage.reconciliation.enqueue(builders.pending("other"))
    claim = claimed_delivery(backend)

    with pytest.raises(CapacityReachedError) as raised:
        backend.storage.jobs.record(claim, transition)

    assert raised.value.capacity == 1
    assert len(backend.storage.reconciliation.queued_requests()) == 1
    backend.storage.jobs.record(claim, SETTLED)


def test_entry_that_is_queued_needs_no_room(make_backend: MakeBackend) -> None:
    """A full queue takes the transition whose entry is there already."""
    backend = make_backend(LedgerOptions(reconciliation_capacity=1))
    backend.storage.reconciliation.enqueue(builders.pending())
    claim = claimed_delivery(backend)

    backend.storage.jobs.record(claim, Await(request=builders.pending()))

    assert backend.storage.jobs.counts(JobKind.DELIVERY).in_flight[JobState.AWAITING] == 1


@pytest.mark.parametrize("transition", TRANSITIONS)
def test_second_record_is_stale(backend: Backend, transition: Transition) -> None:
    """A claim is recorded once; the second time it is stale and changes nothing."""
    claim = claimed_delivery(backend)
    backend.storage.jobs.record(claim, transition)
    row, counts = backend.storage.jobs.get(claim.job_id), backend.storage.jobs.counts(JobKind.DELIVERY)

    with pytest.raises(StaleClaimError) as raised:
        backend.storage.jobs.record(claim, transition)

    assert raised.value.job_id == claim.job_id
    assert (backend.storage.jobs.get(claim.job_id), backend.storage.jobs.counts(JobKind.DELIVERY)) == (row, counts)


@pytest.mark.parametrize("transition", TRANSITIONS)
def test_claim_with_another_token_or_version_is_stale(backend: Backend, transition: Transition) -> None:
    """Version and token both have to match; a refused recording leaves the row, the entries and the dead letters."""
    claim = claimed_delivery(backend)
    before = backend.storage.jobs.get(claim.job_id)

    for forged in (dataclasses.replace(claim, token="guess"), dataclasses.replace(claim, version=2)):
        with pytest.raises(StaleClaimError):
            backend.storage.jobs.record(forged, transition)

    assert backend.storage.jobs.get(claim.job_id) == before
    assert backend.storage.dead_letters.count() == 0
    assert list(backend.storage.reconciliation.queued_requests()) == []


@pytest.mark.parametrize("transition", TRANSITIONS)
def test_expired_lease_is_stale(backend: Backend, transition: Transition) -> None:
    """A worker that lost its lease cannot record, even when nobody else has claimed the row."""
    new = builders.delivery_job()
    claim = builders.admitted_and_claimed(backend.storage.jobs, new, builders.lease(lease_ms=5_000))
    backend.travel(5_000)

    with pytest.raises(StaleClaimError):
        backend.storage.jobs.record(claim, transition)


@pytest.mark.parametrize(
    "transition",
    [
        pytest.param(Reschedule(attempt=2, delay_ms=0, publishes=True), id="attempt left out"),
        pytest.param(Reschedule(attempt=-1, delay_ms=0, publishes=True), id="negative attempt"),
        pytest.param(Reschedule(attempt=1, delay_ms=-1, publishes=True), id="negative delay"),
        pytest.param(Reschedule(attempt=1, delay_ms=2**53, publishes=True), id="overflow"),
        pytest.param(Bury(record=builders.dead_letter("another")), id="record of another job"),
        pytest.param(Await(request=builders.pending("another")), id="request of another job"),
        pytest.param(
            Reschedule(attempt=1, delay_ms=0, publishes=True, pending=builders.indeterminate("another")),
            id="pending of another job",
        ),
    ],
)
def test_transition_out_of_range_is_refused(backend: Backend, transition: Transition) -> None:
    """A transition that no attempt of this job leads to is an error and changes nothing."""
    claim = claimed_delivery(backend)
    before = backend.storage.jobs.get(claim.job_id)

    with pytest.raises(InvalidInputError):
        backend.storage.jobs.record(claim, transition)

    assert backend.storage.jobs.get(claim.job_id) == before


def test_longest_delay_is_kept_exactly(backend: Backend) -> None:
    """A delay near what a score holds does not wrap."""
    claim = builders.admitted_and_claimed(backend.storage.jobs)
    before_ms = backend.now_ms()

    backend.storage.jobs.record(claim, Reschedule(attempt=1, delay_ms=2**52, publishes=False))

    row = backend.storage.jobs.get("rcpt-1")
    assert row is not None
    assert backend.is_about(row.due_at_ms, before_ms + 2**52)
