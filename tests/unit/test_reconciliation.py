"""Reconciliation requests, their keys, and the escalation of those that waited too long."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reliability import clock
from reliability.delivery import (
    AcceptedPendingVerification,
    DeliveryOutcome,
    FailureConfirmed,
    Indeterminate,
    SuccessConfirmed,
)
from reliability.errors import InvalidInputError, InvalidRecordError
from reliability.reconciliation import (
    ReconciliationReason,
    ReconciliationRequest,
    escalate_stale_pending_reconciliation_requests,
    key_for,
    keys_for,
)

NOW = datetime(2024, 5, 1, 12, 0, 0, 123_456, tzinfo=UTC)
HOUR = timedelta(hours=1)

ids = st.text().filter(lambda identifier: "\0" not in identifier)


def request(
    message_id: str,
    age: timedelta = timedelta(),
    reason: ReconciliationReason = ReconciliationReason.PENDING_VERIFICATION,
) -> ReconciliationRequest:
    """Make a request of this age."""
    return ReconciliationRequest.new(reason, message_id, "partner-1", NOW - age)


class ListStorage:
    """Keep requests in a list and answer in batches of two, the way an indexed store with a limit does."""

    def __init__(self, *requests: ReconciliationRequest) -> None:
        self.queued = {entry.idempotency_key: entry for entry in requests}
        self.looked_at = 0
        self.taken_by_others: set[str] = set()

    def stale_pending(self, created_before: datetime) -> Sequence[ReconciliationRequest]:
        pending = [entry for entry in self.queued.values() if entry.reason is ReconciliationReason.PENDING_VERIFICATION]
        stale = sorted(
            (entry for entry in pending if entry.created_at <= created_before), key=lambda entry: entry.created_at
        )
        self.looked_at += len(stale[:2])
        return stale[:2]

    def escalate(self, key: str, replacement: ReconciliationRequest) -> bool:
        if key in self.taken_by_others:
            del self.queued[key]
        if self.queued.pop(key, None) is None:
            return False
        self.queued[replacement.idempotency_key] = replacement
        return True


class StubbornStorage(ListStorage):
    """Refuse every exchange without dropping the entry."""

    def escalate(self, key: str, replacement: ReconciliationRequest) -> bool:
        del key, replacement
        return False


@pytest.mark.parametrize(
    "outcome, reason",
    [
        (SuccessConfirmed(), None),
        (FailureConfirmed(), None),
        (Indeterminate(), ReconciliationReason.INDETERMINATE),
        (Indeterminate(not_sent=True), None),
        (AcceptedPendingVerification(), ReconciliationReason.PENDING_VERIFICATION),
    ],
)
def test_an_outcome_calls_for_the_documented_request(
    outcome: DeliveryOutcome, reason: ReconciliationReason | None
) -> None:
    """Confirmed outcomes and those that never left call for nothing; the others for a request with their reason."""
    made = ReconciliationRequest.for_outcome(outcome, "message-1", "partner-1", NOW)

    if reason is None:
        assert made is None
    else:
        assert made == ReconciliationRequest(
            idempotency_key=key_for(reason, "partner-1", "message-1"),
            message_id="message-1",
            partner_id="partner-1",
            reason=reason,
            created_at=NOW,
        )


@pytest.mark.parametrize("tag", ["indeterminate", "pending_verification"])
def test_the_key_has_the_documented_form(tag: str) -> None:
    """A key is reconcile:v2, the reason's tag and the hex digest of partner, message and tag with NULs between."""
    digest = hashlib.sha256(b"p:1\0m:2\0" + tag.encode()).hexdigest()

    assert key_for(ReconciliationReason(tag), "p:1", "m:2") == f"reconcile:v2:{tag}:{digest}"


@given(partner_id=ids)
def test_the_keys_of_all_reasons_are_those_of_each(partner_id: str) -> None:
    """Asked for at once, the keys are what each reason gives alone."""
    alone = [key_for(reason, partner_id, "m:2") for reason in ReconciliationReason]

    assert keys_for(partner_id, "m:2") == alone


@given(st.tuples(ids, ids), st.tuples(ids, ids))
def test_different_deliveries_never_share_a_key(one: tuple[str, str], other: tuple[str, str]) -> None:
    """Two deliveries have one key only if both ids are the same, whatever the ids hold."""
    keys = [key_for(ReconciliationReason.INDETERMINATE, *pair) for pair in (one, other)]

    assert (keys[0] == keys[1]) == (one == other)


@pytest.mark.parametrize(
    "one, other", [(("a:b", "c"), ("a", "b:c")), (("ab", "c"), ("a", "bc")), (("", "a"), ("a", ""))]
)
def test_ids_with_separators_do_not_collide(one: tuple[str, str], other: tuple[str, str]) -> None:
    """Ids whose texts run together stay apart."""
    reason = ReconciliationReason.PENDING_VERIFICATION

    assert key_for(reason, *one) != key_for(reason, *other)


@pytest.mark.parametrize("pair", [("p\0", "m"), ("p", "\0m"), ("\ud800", "m")])
def test_an_id_that_could_collide_is_refused(pair: tuple[str, str]) -> None:
    """An id with the separator in it, or without bytes of its own, has no key."""
    with pytest.raises(InvalidInputError):
        key_for(ReconciliationReason.INDETERMINATE, *pair)


@given(
    st.builds(
        ReconciliationRequest.new, st.sampled_from(ReconciliationReason), ids, ids, st.datetimes(timezones=st.just(UTC))
    )
)
def test_a_request_reads_back_from_its_bytes(made: ReconciliationRequest) -> None:
    """Every request is stored and read as the same, to the microsecond."""
    assert ReconciliationRequest.from_json(made.canonical_json()) == made


def test_created_at_is_kept_in_utc() -> None:
    """The same instant in another zone makes the same request and the same bytes."""
    elsewhere = NOW.astimezone(timezone(timedelta(hours=5, minutes=30)))

    made = replace(request("m"), created_at=elsewhere)

    assert made == request("m")
    assert made.canonical_json() == request("m").canonical_json()


@pytest.mark.parametrize("created_at", [NOW.replace(tzinfo=None), datetime(1, 1, 1, tzinfo=timezone(HOUR))])
def test_a_time_that_names_no_instant_is_refused(created_at: datetime) -> None:
    """A time without zone, or one that UTC cannot hold, makes no request."""
    with pytest.raises(InvalidInputError, match="created_at"):
        replace(request("m"), created_at=created_at)


@pytest.mark.parametrize(
    "changes",
    [
        {"extra": 1},
        {"reason": "lost"},
        {"reason": None},
        {"created_at": "yesterday"},
        {"created_at": "2024-05-01T12:00:00"},
        {"created_at": "0001-01-01T00:00:00+01:00"},
        {"created_at": 1_714_564_800},
        {"message_id": 5},
        {"idempotency_key": None},
    ],
)
def test_a_stored_request_that_does_not_decode_is_an_invalid_record(changes: dict[str, object]) -> None:
    """A row that is no request is reported as an invalid record."""
    text = json.dumps(json.loads(request("m").canonical_json()) | changes)

    with pytest.raises(InvalidRecordError, match="reconciliation request"):
        ReconciliationRequest.from_json(text)


@pytest.mark.parametrize(
    "age, reason, stale",
    [
        (HOUR - timedelta(microseconds=1), ReconciliationReason.PENDING_VERIFICATION, False),
        (HOUR, ReconciliationReason.PENDING_VERIFICATION, True),
        (HOUR * 9, ReconciliationReason.PENDING_VERIFICATION, True),
        (-HOUR, ReconciliationReason.PENDING_VERIFICATION, False),
        (HOUR * 9, ReconciliationReason.INDETERMINATE, False),
    ],
)
def test_only_old_pending_entries_are_stale(age: timedelta, reason: ReconciliationReason, stale: bool) -> None:
    """An entry is stale once its receipt is awaited for the maximum age; an indeterminate one never is."""
    entry = request("m", age, reason)

    escalated = escalate_stale_pending_reconciliation_requests(ListStorage(entry), HOUR, NOW)

    assert entry.is_stale(HOUR, NOW) is stale
    assert len(escalated) == (1 if stale else 0)


def test_stale_entries_are_exchanged_for_indeterminate_ones() -> None:
    """Every stale entry leaves, its replacement waits under a new key, and the others are untouched."""
    stale = [request(f"old-{number}", HOUR + timedelta(minutes=number)) for number in range(5)]
    fresh = request("fresh")
    unknown = request("unknown", HOUR * 9, ReconciliationReason.INDETERMINATE)
    storage = ListStorage(*stale, fresh, unknown)

    escalated = escalate_stale_pending_reconciliation_requests(storage, HOUR, NOW)

    assert sorted(entry.message_id for entry in escalated) == [f"old-{number}" for number in range(5)]
    assert {entry.reason for entry in escalated} == {ReconciliationReason.INDETERMINATE}
    assert {entry.created_at for entry in escalated} == {NOW}
    assert sorted(storage.queued) == sorted(entry.idempotency_key for entry in [*escalated, fresh, unknown])


def test_an_entry_somebody_else_resolved_is_skipped() -> None:
    """An entry that is gone when its turn comes is not among the escalated ones."""
    mine, theirs = request("mine", HOUR), request("theirs", HOUR)
    storage = ListStorage(mine, theirs)
    storage.taken_by_others = {theirs.idempotency_key}

    escalated = escalate_stale_pending_reconciliation_requests(storage, HOUR, NOW)

    assert escalated == [mine.escalated(NOW)]


def test_a_store_that_keeps_refusing_is_asked_once_per_entry() -> None:
    """Escalation ends even if a store shows the same entries again and again."""
    storage = StubbornStorage(request("a", HOUR), request("b", HOUR))

    assert escalate_stale_pending_reconciliation_requests(storage, HOUR, NOW) == []


def test_escalation_looks_at_stale_entries_only() -> None:
    """The number of fresh entries does not change what escalation reads."""
    storage = ListStorage(request("old", HOUR), *(request(f"fresh-{number}") for number in range(1000)))

    escalate_stale_pending_reconciliation_requests(storage, HOUR, NOW)

    assert storage.looked_at == 1


def test_escalation_reads_the_clock_when_no_time_is_given() -> None:
    """Without a given instant an entry made long ago is stale and one made in the future is not."""
    past = replace(request("past"), created_at=clock.utc_now() - HOUR)
    future = replace(request("future"), created_at=clock.utc_now() + HOUR)

    escalated = escalate_stale_pending_reconciliation_requests(ListStorage(past, future), timedelta(minutes=1))

    assert [entry.message_id for entry in escalated] == ["past"]


def test_an_age_of_nothing_escalates_every_pending_entry() -> None:
    """With a maximum age of zero an entry made this instant is stale."""
    entry = request("m")

    escalated = escalate_stale_pending_reconciliation_requests(ListStorage(entry), timedelta(), NOW)

    assert escalated == [entry.escalated(NOW)]


def test_a_negative_age_is_refused() -> None:
    """The maximum age is no time or more."""
    with pytest.raises(InvalidInputError, match="max_pending_age"):
        escalate_stale_pending_reconciliation_requests(ListStorage(), timedelta(seconds=-1), NOW)
