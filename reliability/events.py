"""
Every event this project tells of: its name, what it means and the fields it may carry.

An event is one log line and one counter per state change. Fields are ids, codes, counts and times, never a detail, a
payload or a secret. `docs/events.md` is `as_markdown()` written to a file; a test compares the two.
"""

from enum import StrEnum
from typing import Self

_HEADING = """\
# Events

One line per state change: the event's name first, then its fields. Fields are ids, codes, counts and times; details,
payloads and secrets never appear. A field that does not apply is left out.

| event | meaning | fields |
|---|---|---|
"""


class Event(StrEnum):
    """Name an event; `meaning` and `fields` say the rest."""

    meaning: str
    fields: tuple[str, ...]

    def __new__(cls, name: str, meaning: str = "", *fields: str) -> Self:
        """Keep what stands beside the name with the member."""
        event = str.__new__(cls, name)
        event._value_ = name
        event.meaning = meaning
        event.fields = fields
        return event

    SETTLEMENT_ADMITTED = "settlement.admitted", "A new observation is in the ledger.", "job_id", "queue"
    SETTLEMENT_SETTLED = "settlement.settled", "The rail accepted the settlement.", "job_id", "attempt"
    SETTLEMENT_SKIPPED = "settlement.skipped", "There was nothing to settle.", "job_id", "attempt", "code"
    SETTLEMENT_RETRY_SCHEDULED = (
        "settlement.retry_scheduled",
        "The attempt failed and another one follows.",
        *("job_id", "attempt", "max_retries", "delay_ms", "code"),
    )
    SETTLEMENT_DEFERRED = (
        "settlement.deferred",
        "The attempt could not begin; it comes again and none is spent.",
        *("job_id", "attempt", "delay_ms", "why"),
    )
    SETTLEMENT_DEAD_LETTERED = (
        "settlement.dead_lettered",
        "The settlement cannot succeed; its record is stored.",
        *("job_id", "attempts", "code"),
    )
    SETTLEMENT_PENDING = "settlement.pending", "The rail took it; its confirmation is awaited.", "job_id", "attempt"
    SETTLEMENT_CONFIRMED = "settlement.confirmed", "The rail confirmed a pending settlement.", "job_id", "attempt"

    DELIVERY_ADMITTED = "delivery.admitted", "A new message is in the ledger.", "job_id", "partner_id", "queue"
    DELIVERY_SENT = (
        "delivery.sent",
        "The message went out to the partner; what came of it is the next event.",
        *("job_id", "partner_id", "attempt", "rule"),
    )
    DELIVERY_CONFIRMED = (
        "delivery.confirmed",
        "The partner confirmed the delivery.",
        *("job_id", "partner_id", "attempt", "rule"),
    )
    DELIVERY_RETRY_SCHEDULED = (
        "delivery.retry_scheduled",
        "The outcome is unknown and the same bytes are sent again.",
        *("job_id", "partner_id", "attempt", "max_retries", "delay_ms", "code", "rule"),
    )
    DELIVERY_DEFERRED = (
        "delivery.deferred",
        "The attempt could not begin (open circuit, rate limit); it comes again and none is spent.",
        *("job_id", "partner_id", "attempt", "delay_ms", "why"),
    )
    DELIVERY_DEAD_LETTERED = (
        "delivery.dead_lettered",
        "The delivery cannot succeed; its record is stored.",
        *("job_id", "partner_id", "attempts", "code", "rule"),
    )
    DELIVERY_PENDING = (
        "delivery.pending",
        "The transport took it; the receipt is awaited.",
        *("job_id", "partner_id", "attempt"),
    )

    RECONCILIATION_RECONCILED = (
        "reconciliation.reconciled",
        "A receipt or a success resolved an open entry.",
        *("job_id", "partner_id", "key", "reason"),
    )
    RECONCILIATION_ESCALATED = (
        "reconciliation.escalated",
        "No receipt came in time; the entry is indeterminate now.",
        *("job_id", "partner_id", "key"),
    )
    RECEIPT_UNKNOWN = "receipt.unknown", "A receipt for no known message is kept.", "message_id", "partner_id"
    RECEIPT_REPEATED = "receipt.repeated", "The same receipt came again; nothing changed.", "message_id", "partner_id"
    RECEIPT_CONFLICTING = (
        "receipt.conflicting",
        "A receipt disagrees with an earlier one; nothing changed, look into it.",
        *("message_id", "partner_id"),
    )

    ESCALATION_FAILED = "escalation.failed", "The store did not answer; the next tick makes up for it.", "operation"

    PARTNER_STOPPED = (
        "partner.stopped",
        "The partner wants no more deliveries at this address; they wait until an operator enables it.",
        *("partner_id", "rule"),
    )
    PARTNER_SLOWED = (
        "partner.slowed",
        "The partner asked for patience; its deliveries wait.",
        *("partner_id", "wait_ms"),
    )
    PARTNERS_RELOADED = "partners.reloaded", "The partner file was read again and is in force.", "count"
    PARTNERS_REFUSED = (
        "partners.refused",
        "The partner file does not hold; the partners in force stay. Its problems follow.",
        "count",
    )
    INCIDENT_OPENED = (
        "incident.opened",
        "A partner's circuit opened; its deliveries wait.",
        *("partner_id", "opened_at_ms"),
    )
    INCIDENT_CLOSED = (
        "incident.closed",
        "A partner's circuit closed; its deliveries go out.",
        *("partner_id", "opened_at_ms", "closed_at_ms"),
    )

    JOB_DUPLICATE = "job.duplicate", "The same id and bytes came again; nothing changed.", "job_id", "of"
    JOB_CONFLICT = "job.conflict", "A known id came with other bytes; nothing changed.", "job_id"
    JOB_STALE_MESSAGE = "job.stale_message", "A message found nothing to claim and ended.", "job_id", "attempt", "why"
    JOB_LEASE_EXPIRED = "job.lease_expired", "A worker died in this attempt; it counts as failed.", "job_id", "attempt"
    JOB_CLAIM_LOST = "job.claim_lost", "A worker lost its claim; its outcome is dropped.", "job_id", "attempt"
    OUTCOME_SPOOLED = (
        "outcome.spooled",
        "The ledger did not answer; what an attempt came to waits on this host's disk.",
        *("job_id", "attempt"),
    )
    OUTCOME_RECORDED_LATE = (
        "outcome.recorded_late",
        "What waited on disk is in the ledger; the attempt's own event follows.",
        *("job_id", "attempt"),
    )
    OUTCOME_NOT_SPOOLED = (
        "outcome.not_spooled",
        "What an attempt came to could not be kept on disk, or not be read again; it is lost with its lease.",
        *("job_id", "attempt", "why"),
    )
    JOB_REPLAYED = "job.replayed", "An operator gave a dead job another life.", "job_id"
    JOB_HELD = "job.held", "An operator stopped the job at its next claim.", "job_id"
    JOB_RELEASED = "job.released", "An operator let a held job go on.", "job_id"
    JOB_CANCELLED = "job.cancelled", "An operator ended the job.", "job_id"

    BATCH_ENDED = (
        "batch.ended",
        "A batch message ended: what became of its jobs; those that ended well have no line of their own.",
        *("kind", "count", "settled", "skipped", "confirmed", "retried", "deferred", "pending", "dead_lettered"),
        *("stale", "early", "given_back"),
    )

    MESSAGE_QUARANTINED = (
        "message.quarantined",
        "A message that cannot be understood is kept aside with its bytes.",
        *("queue", "field", "why", "quarantine_id", "sha256"),
    )
    PUBLISH_FAILED = "publish.failed", "The broker took no message; it stays owed.", "job_id", "queue", "count"
    PUMP_WOKE = "pump.woke", "The due pump published wake-ups.", "job_id", "attempt", "queue", "cause", "count"
    DEAD_LETTER_PUBLISHED = "dead_letter.published", "The record reached the dead-letter queue.", "job_id"


def as_markdown() -> str:
    """Return the page of all events."""
    return _HEADING + "".join(_row(event) for event in Event)


def _row(event: Event) -> str:
    fields = ", ".join(f"`{field}`" for field in event.fields)
    return f"| `{event.value}` | {event.meaning} | {fields} |\n"
