"""What `ReconciliationStorage` promises."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import pytest

from reliability.errors import CapacityReachedError, InvalidInputError
from reliability.reconciliation import ReconciliationReason, escalate_stale_pending_reconciliation_requests
from storage.jobs import (
    Await,
    Claim,
    ClaimCause,
    Finish,
    FinishedAs,
    JobState,
    Reschedule,
    WakeUpCause,
)
from storage.options import LedgerOptions
from tests.contract.conftest import MakeBackend
from tests.support import builders
from tests.support.backends import Backend

AT = builders.CREATED_AT
DAY = timedelta(days=1)


def awaiting(backend: Backend) -> Claim:
    """Let the delivery of msg-1 to acme wait for its receipt."""
    claim = builders.admitted_and_claimed(backend.storage.jobs, builders.delivery_job())
    backend.storage.jobs.record(claim, Await(request=builders.pending()))
    return claim


def test_request_is_queued_once(backend: Backend) -> None:
    """A key is queued once; the first request under it stays."""
    queue, first = backend.storage.reconciliation, builders.pending()

    assert [queue.enqueue(first), queue.enqueue(builders.pending(at=AT + DAY))] == [True, False]
    assert list(queue.queued_requests()) == [first]


def test_requests_are_listed_oldest_first(backend: Backend) -> None:
    """All entries are listed by age, whatever their reason."""
    old, middle = builders.indeterminate("m", at=AT - DAY), builders.pending("m")
    young = builders.pending("n", at=AT + timedelta(microseconds=1))
    for request in (young, old, middle):
        backend.storage.reconciliation.enqueue(request)

    assert list(backend.storage.reconciliation.queued_requests()) == [old, middle, young]


def test_entries_of_one_reason_are_listed_by_age(backend: Backend) -> None:
    """The oldest entries of a reason are found first, as many as were asked for."""
    old, young = builders.pending("old"), builders.pending("young", at=AT + DAY)
    unknown = builders.indeterminate("unknown", at=AT - DAY)
    queue = backend.storage.reconciliation
    for request in (young, unknown, old):
        queue.enqueue(request)

    assert list(queue.oldest(ReconciliationReason.PENDING_VERIFICATION, 10)) == [old, young]
    assert list(queue.oldest(ReconciliationReason.PENDING_VERIFICATION, 1)) == [old]
    assert list(queue.oldest(ReconciliationReason.INDETERMINATE, 10)) == [unknown]


def test_entry_is_found_by_its_key(backend: Backend) -> None:
    """A queued entry is found, one that was resolved or never queued is not; nothing is listed where nothing is."""
    queue, request = backend.storage.reconciliation, builders.pending()
    queue.enqueue(request)
    found = queue.find(request.idempotency_key)
    queue.resolve(request.idempotency_key)

    assert found == request
    assert queue.find(request.idempotency_key) is None
    assert list(queue.oldest(ReconciliationReason.PENDING_VERIFICATION, 10)) == []


def test_resolved_entry_is_gone_and_remembered(backend: Backend) -> None:
    """Resolving removes the entry once, and its key is not queued again."""
    queue, key = backend.storage.reconciliation, builders.pending().idempotency_key
    queue.enqueue(builders.pending())

    assert [queue.resolve(key), queue.resolve(key)] == [True, False]

    assert queue.enqueue(builders.pending()) is False
    assert list(queue.queued_requests()) == []


def test_resolved_key_is_forgotten_after_its_time(make_backend: MakeBackend) -> None:
    """The memory of resolved keys is bounded in time."""
    backend = make_backend(LedgerOptions(resolved_ttl_s=60))
    backend.storage.reconciliation.enqueue(builders.pending())
    backend.storage.reconciliation.resolve(builders.pending().idempotency_key)
    backend.travel(60_001)

    assert backend.storage.reconciliation.enqueue(builders.pending()) is True


def test_job_whose_entry_is_resolved_is_verified(backend: Backend) -> None:
    """An operator who resolves the entry a job waits for lets the job be verified; it never waits for nobody."""
    claim = awaiting(backend)

    backend.storage.reconciliation.resolve(builders.pending().idempotency_key)

    assert builders.claimed(backend.storage.jobs, claim.job_id).cause is ClaimCause.ESCALATED


def test_job_goes_on_waiting_when_another_entry_is_resolved(backend: Backend) -> None:
    """Resolving an older unknown outcome of the delivery leaves it waiting for its receipt."""
    claim = awaiting(backend)
    backend.storage.reconciliation.enqueue(builders.indeterminate())

    backend.storage.reconciliation.resolve(builders.indeterminate().idempotency_key)

    assert [row.job_id for row in backend.storage.jobs.rows(JobState.AWAITING, 10)] == [claim.job_id]


def test_full_queue_refuses(make_backend: MakeBackend) -> None:
    """At capacity a new entry is an error and nothing is queued; both reasons count; a known key is no error."""
    backend = make_backend(LedgerOptions(reconciliation_capacity=2))
    queue = backend.storage.reconciliation
    queue.enqueue(builders.pending("a"))
    queue.enqueue(builders.indeterminate("b"))

    with pytest.raises(CapacityReachedError) as raised:
        queue.enqueue(builders.pending("c"))

    assert raised.value.capacity == 2
    assert queue.enqueue(builders.pending("a")) is False
    assert len(queue.queued_requests()) == 2


def test_resolving_makes_room(make_backend: MakeBackend) -> None:
    """A resolved entry frees its place."""
    backend = make_backend(LedgerOptions(reconciliation_capacity=1))
    backend.storage.reconciliation.enqueue(builders.pending("a"))
    backend.storage.reconciliation.resolve(builders.pending("a").idempotency_key)

    assert backend.storage.reconciliation.enqueue(builders.pending("b")) is True


def test_capacity_holds_under_concurrency(make_backend: MakeBackend) -> None:
    """Of 16 threads that queue different entries exactly as many succeed as there is room."""
    backend = make_backend(LedgerOptions(reconciliation_capacity=5))

    def enqueue(number: int) -> bool:
        try:
            return backend.storage.reconciliation.enqueue(builders.pending(f"m{number}"))
        except CapacityReachedError:
            return False

    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(enqueue, range(16)))

    assert answers.count(True) == 5
    assert len(backend.storage.reconciliation.queued_requests()) == 5


def test_counts_tell_each_reason(backend: Backend) -> None:
    """Entries are counted by their tag."""
    queue = backend.storage.reconciliation
    for request in (builders.pending("a"), builders.pending("b"), builders.indeterminate("c")):
        queue.enqueue(request)

    assert queue.counts() == {"pending_verification": 2, "indeterminate": 1}


@pytest.mark.parametrize(
    "created_before, stale",
    [
        pytest.param(AT - timedelta(microseconds=1), False, id="a microsecond younger"),
        pytest.param(AT, True, id="exactly as old"),
        pytest.param(AT + timedelta(microseconds=1), True, id="older"),
    ],
)
def test_stale_is_created_at_or_before(backend: Backend, created_before: datetime, stale: bool) -> None:
    """The age of an entry is compared to the microsecond."""
    backend.storage.reconciliation.enqueue(builders.pending())

    found = backend.storage.reconciliation.stale_pending(created_before)

    assert list(found) == ([builders.pending()] if stale else [])


def test_indeterminate_is_never_stale(backend: Backend) -> None:
    """Only entries that wait for a receipt are escalated."""
    backend.storage.reconciliation.enqueue(builders.indeterminate())

    assert list(backend.storage.reconciliation.stale_pending(AT + DAY)) == []


def test_stale_entries_come_oldest_first_up_to_the_limit(backend: Backend) -> None:
    """A limited listing has the oldest entries."""
    requests = [builders.pending(f"m{number}", at=AT + number * DAY) for number in range(4)]
    for request in reversed(requests):
        backend.storage.reconciliation.enqueue(request)

    found = backend.storage.reconciliation.stale_pending(AT + 2 * DAY, limit=2)

    assert list(found) == requests[:2]


def test_stale_out_of_range_is_refused(backend: Backend) -> None:
    """A listing of nothing, and an instant without a zone, are errors."""
    with pytest.raises(InvalidInputError):
        backend.storage.reconciliation.stale_pending(AT, limit=0)
    with pytest.raises(InvalidInputError):
        backend.storage.reconciliation.stale_pending(AT.replace(tzinfo=None))


def test_escalation_puts_the_replacement_in_place(backend: Backend) -> None:
    """The old entry is resolved and the new one queued in one step."""
    queue, old, new = backend.storage.reconciliation, builders.pending(), builders.indeterminate(at=AT + DAY)
    queue.enqueue(old)

    assert queue.escalate(old.idempotency_key, new) is True

    assert list(queue.queued_requests()) == [new]
    assert queue.enqueue(old) is False
    assert list(queue.stale_pending(AT + DAY)) == []


def test_escalation_of_what_is_resolved_changes_nothing(backend: Backend) -> None:
    """An entry that somebody resolved first is left, and no replacement appears."""
    queue, old = backend.storage.reconciliation, builders.pending()
    queue.enqueue(old)
    queue.resolve(old.idempotency_key)

    assert queue.escalate(old.idempotency_key, builders.indeterminate()) is False
    assert list(queue.queued_requests()) == []


def test_escalation_keeps_an_indeterminate_entry(backend: Backend) -> None:
    """A replacement whose key is queued already leaves the older entry there."""
    queue, kept = backend.storage.reconciliation, builders.indeterminate(at=AT - DAY)
    queue.enqueue(kept)
    queue.enqueue(builders.pending())

    assert queue.escalate(builders.pending().idempotency_key, builders.indeterminate(at=AT + DAY)) is True
    assert list(queue.queued_requests()) == [kept]


def test_escalation_works_at_capacity(make_backend: MakeBackend) -> None:
    """One entry takes another's place, so a full queue can still be escalated."""
    backend = make_backend(LedgerOptions(reconciliation_capacity=1))
    backend.storage.reconciliation.enqueue(builders.pending())

    assert backend.storage.reconciliation.escalate(builders.pending().idempotency_key, builders.indeterminate()) is True


def test_escalated_job_is_due_and_says_so(backend: Backend) -> None:
    """The job that waited is woken, and its next claim tells that it is to be verified."""
    claim = awaiting(backend)

    backend.storage.reconciliation.escalate(builders.pending().idempotency_key, builders.indeterminate())

    wakes = [(wake.job_id, wake.cause) for wake in backend.storage.jobs.due(10)]
    assert wakes == [(claim.job_id, WakeUpCause.PARKED)]
    assert builders.claimed(backend.storage.jobs, claim.job_id).cause is ClaimCause.ESCALATED


def test_escalated_settlement_is_due_as_well(backend: Backend) -> None:
    """A settlement that awaits its confirmation is found by its receipt id."""
    claim = builders.admitted_and_claimed(backend.storage.jobs)
    request = builders.pending("rcpt-1", "settlement")
    backend.storage.jobs.record(claim, Await(request=request))

    backend.storage.reconciliation.escalate(request.idempotency_key, request.escalated(AT + DAY))

    assert builders.claimed(backend.storage.jobs).cause is ClaimCause.ESCALATED


def test_escalated_attempt_that_is_retried_is_an_ordinary_one(backend: Backend) -> None:
    """Only the claim right after the escalation verifies."""
    claim = awaiting(backend)
    backend.storage.reconciliation.escalate(builders.pending().idempotency_key, builders.indeterminate())
    escalated = builders.claimed(backend.storage.jobs, claim.job_id)

    backend.storage.jobs.record(escalated, Reschedule(attempt=1, delay_ms=0, publishes=True))

    assert builders.claimed(backend.storage.jobs, claim.job_id, 1).cause is ClaimCause.DUE


def test_escalation_leaves_a_job_that_does_not_wait(backend: Backend) -> None:
    """A job that is outstanding, or held by an operator, is not woken by its entry."""
    jobs = backend.storage.jobs
    jobs.admit(builders.delivery_job(message_id="outstanding"))
    held = builders.admitted_and_claimed(jobs, builders.delivery_job(message_id="held"))
    jobs.record(held, Await(request=builders.pending("held")))
    jobs.hold(held.job_id)
    backend.storage.reconciliation.enqueue(builders.pending("outstanding"))

    for name in ("outstanding", "held"):
        backend.storage.reconciliation.escalate(builders.pending(name).idempotency_key, builders.indeterminate(name))

    assert jobs.due(10) == []
    assert [row.job_id for row in jobs.rows(JobState.HELD, 10)] == [held.job_id]


def test_one_of_many_escalators_wins(backend: Backend) -> None:
    """Of 16 threads that escalate one entry exactly one does, and the job is woken once."""
    awaiting(backend)
    old, new = builders.pending(), builders.indeterminate()

    with ThreadPoolExecutor(16) as threads:
        answers = list(
            threads.map(lambda _: backend.storage.reconciliation.escalate(old.idempotency_key, new), range(16))
        )

    assert answers.count(True) == 1
    assert len(backend.storage.jobs.due(10)) == 1


def test_parallel_sweeps_escalate_each_entry_once(backend: Backend) -> None:
    """Of several beats that sweep at once, each stale entry is escalated by one; fresh entries are left."""
    queue = backend.storage.reconciliation
    for number in range(30):
        queue.enqueue(builders.pending(f"m{number}", at=AT + number * timedelta(minutes=1)))

    with ThreadPoolExecutor(4) as threads:
        sweeps = threads.map(
            lambda _: escalate_stale_pending_reconciliation_requests(queue, DAY, AT + DAY + timedelta(minutes=19)),
            range(4),
        )
        escalated = [request.message_id for sweep in sweeps for request in sweep]

    assert sorted(escalated) == sorted(f"m{number}" for number in range(20))
    assert queue.counts() == {"pending_verification": 10, "indeterminate": 20}


def test_finished_job_ends_the_escalated_entry_too(backend: Backend) -> None:
    """A late success resolves whichever key is there."""
    claim = awaiting(backend)
    backend.storage.reconciliation.escalate(builders.pending().idempotency_key, builders.indeterminate())

    escalated = builders.claimed(backend.storage.jobs, claim.job_id)
    backend.storage.jobs.record(escalated, Finish(finished_as=FinishedAs.CONFIRMED))

    assert list(backend.storage.reconciliation.queued_requests()) == []
