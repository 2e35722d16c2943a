"""
What waits for a receipt, under which key, and when it has waited too long.

The stores in `storage` keep the requests; the delivery flow makes them; the escalation flow calls
`escalate_stale_pending_reconciliation_requests`, which is safe to run in any number of processes at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Protocol, Self, assert_never

from reliability import canonical, clock, fields
from reliability.delivery import (
    AcceptedPendingVerification,
    DeliveryOutcome,
    FailureConfirmed,
    Indeterminate,
    SuccessConfirmed,
)
from reliability.errors import InvalidInputError, InvalidRecordError

_REQUEST_FIELDS = frozenset({"idempotency_key", "message_id", "partner_id", "reason", "created_at"})


class ReconciliationReason(StrEnum):
    """Say why an entry waits; the value is the tag in its key."""

    INDETERMINATE = "indeterminate"
    PENDING_VERIFICATION = "pending_verification"


_REASONS = tuple(reason.value for reason in ReconciliationReason)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconciliationRequest:
    """Hold one delivery whose outcome is to be found out. `created_at` is wall-clock time, kept in UTC."""

    idempotency_key: str
    message_id: str
    partner_id: str
    reason: ReconciliationReason
    created_at: datetime

    def __post_init__(self) -> None:
        if self.created_at.tzinfo is None:
            raise InvalidInputError("created_at", "expected a time with a zone, got one without")
        try:
            object.__setattr__(self, "created_at", self.created_at.astimezone(UTC))
        except OverflowError as error:
            raise InvalidInputError("created_at", "expected a time within the years 1 to 9999 in UTC") from error

    @classmethod
    def new(cls, reason: ReconciliationReason, message_id: str, partner_id: str, now: datetime) -> Self:
        """Make a request whose key follows from its ids and reason."""
        return cls(
            idempotency_key=key_for(reason, partner_id, message_id),
            message_id=message_id,
            partner_id=partner_id,
            reason=reason,
            created_at=now,
        )

    @classmethod
    def for_outcome(cls, outcome: DeliveryOutcome, message_id: str, partner_id: str, now: datetime) -> Self | None:
        """Make the request an outcome calls for; None where it is certain, or where nothing was sent."""
        match outcome:
            case SuccessConfirmed() | FailureConfirmed():
                return None
            case Indeterminate(not_sent=not_sent):
                return None if not_sent else cls.new(ReconciliationReason.INDETERMINATE, message_id, partner_id, now)
            case AcceptedPendingVerification():
                return cls.new(ReconciliationReason.PENDING_VERIFICATION, message_id, partner_id, now)
            case _:
                assert_never(outcome)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """
        Read a stored request.

        Raises:
            InvalidRecordError: With what is wrong.

        """
        try:
            return cls._from_wire(canonical.strict_json(text))
        except InvalidInputError as error:
            raise InvalidRecordError("reconciliation request", str(error)) from error

    def canonical_json(self) -> bytes:
        """Return the bytes that are stored."""
        return canonical.canonical_json(
            {
                "idempotency_key": self.idempotency_key,
                "message_id": self.message_id,
                "partner_id": self.partner_id,
                "reason": self.reason.value,
                "created_at": self.created_at.isoformat(timespec="microseconds"),
            }
        )

    def escalated(self, now: datetime) -> Self:
        """Return what takes this request's place when no receipt came in time; its key is another one."""
        return self.new(ReconciliationReason.INDETERMINATE, self.message_id, self.partner_id, now)

    def is_stale(self, max_pending_age: timedelta, now: datetime) -> bool:
        """Tell whether a receipt is still awaited and has been for `max_pending_age` or longer."""
        return self.reason is ReconciliationReason.PENDING_VERIFICATION and now - self.created_at >= max_pending_age

    @classmethod
    def _from_wire(cls, value: object) -> Self:
        found = fields.members("request", value, _REQUEST_FIELDS)
        return cls(
            idempotency_key=fields.text("idempotency_key", found["idempotency_key"]),
            message_id=fields.text("message_id", found["message_id"]),
            partner_id=fields.text("partner_id", found["partner_id"]),
            reason=_reason(fields.text("reason", found["reason"])),
            created_at=_instant(fields.text("created_at", found["created_at"])),
        )


class EscalatingStorage(Protocol):
    """Keep reconciliation requests so that stale ones are found by age and exchanged atomically."""

    def stale_pending(self, created_before: datetime) -> Sequence[ReconciliationRequest]:
        """
        Return PendingVerification entries created at or before the instant, oldest first.

        May return only the first of many, so callers ask again until nothing new comes. The cost follows the number
        returned, never the number pending.
        """
        ...

    def escalate(self, key: str, replacement: ReconciliationRequest) -> bool:
        """
        Resolve `key` and queue the replacement in one atomic step.

        False, changing nothing, if the key is not queued any more: of any number of callers exactly one gets True.
        """
        ...


def key_for(reason: ReconciliationReason, partner_id: str, message_id: str) -> str:
    """
    Return the idempotency key of an entry: ids of any form but with NUL in them, which separates the hashed parts.

    Raises:
        InvalidInputError: An id contains NUL, so two different pairs could share a key.

    """
    _check_ids(partner_id, message_id)
    return _key(reason.value, f"{partner_id}\0{message_id}\0")


def keys_for(partner_id: str, message_id: str) -> list[str]:
    """
    Return the keys of all reasons, as `key_for` makes each.

    Raises:
        InvalidInputError: As `key_for`.

    """
    _check_ids(partner_id, message_id)
    ids = f"{partner_id}\0{message_id}\0"
    return [_key(reason, ids) for reason in _REASONS]


def _check_ids(partner_id: str, message_id: str) -> None:
    for field, identifier in (("partner_id", partner_id), ("message_id", message_id)):
        if "\0" in fields.text(field, identifier):
            raise InvalidInputError(field, "expected an id without NUL, got one with it")


def _key(reason: str, ids: str) -> str:
    return f"reconcile:v2:{reason}:{canonical.sha256_hex((ids + reason).encode())}"


def escalate_stale_pending_reconciliation_requests(
    storage: EscalatingStorage, max_pending_age: timedelta, now: datetime | None = None
) -> list[ReconciliationRequest]:
    """
    Exchange every entry that waited `max_pending_age` or longer for an indeterminate one; return the new ones.

    Fresh and indeterminate entries are left; one that somebody else resolved first is skipped.
    """
    if max_pending_age < timedelta():
        raise InvalidInputError("max_pending_age", "expected no time or more, got a negative duration")
    at = now or clock.utc_now()
    escalated: list[ReconciliationRequest] = []
    seen: set[str] = set()
    while batch := [request for request in storage.stale_pending(at - max_pending_age) if _first(request, seen)]:
        for request in batch:
            replacement = request.escalated(at)
            if storage.escalate(request.idempotency_key, replacement):
                escalated.append(replacement)
    return escalated


def _first(request: ReconciliationRequest, seen: set[str]) -> bool:
    # An entry comes back in the next batch only if a store answered False without dropping it: never ask twice.
    first = request.idempotency_key not in seen
    seen.add(request.idempotency_key)
    return first


def _reason(tag: str) -> ReconciliationReason:
    try:
        return ReconciliationReason(tag)
    except ValueError as error:
        raise InvalidInputError("reason", f"expected one of {', '.join(ReconciliationReason)}") from error


def _instant(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInputError("created_at", "expected an ISO 8601 time with a zone") from error
