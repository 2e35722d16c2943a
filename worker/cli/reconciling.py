"""
The work of `chio-worker reconciliation`: entries found, shown, concluded and escalated.

An operator's word ends an entry through the flow a receipt takes, so that ledger and entry end together.
"""

import heapq
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from rich.console import Group

from reliability import clock
from reliability.receipt import RECEIPT_SCHEMA, DeliveryReceipt, Verdict
from reliability.reconciliation import (
    ReconciliationReason,
    ReconciliationRequest,
    escalate_stale_pending_reconciliation_requests,
)
from storage import job_ids
from storage.bundle import Storage
from storage.job_ids import job_of
from storage.protocols import ReconciliationStorage
from tasks.confirm_flow import ConfirmFlow, ReceiptAnswer
from worker.cli import output

__all__ = ["SENTENCES", "Ended", "conclude", "escalate_one", "find", "job_of", "listed", "sweep", "table", "to_json"]

_BY_OPERATOR: Final = "an operator said so"


class Ended(StrEnum):
    """Name what an operator's word did."""

    #: Entry and job ended together.
    ENDED = "ended"
    #: The job had ended before; the entry that was left is gone.
    CLEARED = "cleared"
    #: The job had ended the other way; nothing was changed.
    CONTRADICTED = "contradicted"
    #: Nothing was sent yet, so nobody can have received it; nothing was changed.
    NOT_SENT = "not_sent"

    @property
    def is_done(self) -> bool:
        """Tell whether the entry is gone."""
        return self in {Ended.ENDED, Ended.CLEARED}


SENTENCES: Final[Mapping[Ended, str]] = {
    Ended.ENDED: "{job_id} has ended",
    Ended.CLEARED: "{job_id} had ended before; its entry is gone",
    Ended.CONTRADICTED: "{job_id} has ended the other way and nothing was changed; replay it, or leave it",
    Ended.NOT_SENT: "{job_id} was not sent yet and nothing was changed; look with: chio-worker jobs show {job_id}",
}


def find(queue: ReconciliationStorage, name: str) -> ReconciliationRequest | None:
    """Find an entry by its key or by the id of its job, whichever key that waits under."""
    keys = (name, *job_ids.reconciliation_keys(name))
    return next((found for key in keys if (found := queue.find(key))), None)


def listed(queue: ReconciliationStorage, reasons: Sequence[str], limit: int) -> list[ReconciliationRequest]:
    """Return the oldest entries of the named reasons."""
    found = [request for reason in reasons for request in queue.oldest(ReconciliationReason(reason), limit)]
    return heapq.nsmallest(limit, found, key=lambda request: (request.created_at, request.idempotency_key))


def conclude(storage: Storage, request: ReconciliationRequest, verdict: str) -> Ended:
    """End the entry's job as an operator says: `confirmed` or `failed`."""
    receipt = DeliveryReceipt(
        schema=RECEIPT_SCHEMA,
        partner_id=request.partner_id,
        message_id=request.message_id,
        verdict=Verdict(verdict).value,
        detail=_BY_OPERATOR,
    )
    answer = ConfirmFlow(ledger=storage.jobs, dead_letters=storage.dead_letters).run(receipt)
    if answer is ReceiptAnswer.RESOLVED:
        return Ended.ENDED
    if answer is ReceiptAnswer.CONFLICTING:
        return Ended.CONTRADICTED
    if storage.jobs.get(job_of(request)) is not None:
        return Ended.NOT_SENT
    storage.reconciliation.resolve(request.idempotency_key)
    return Ended.CLEARED


def sweep(queue: ReconciliationStorage, age_s: int) -> list[ReconciliationRequest]:
    """Escalate everything that waited so long."""
    return escalate_stale_pending_reconciliation_requests(queue, timedelta(seconds=age_s))


def escalate_one(queue: ReconciliationStorage, name: str) -> list[ReconciliationRequest]:
    """Escalate one entry whatever its age; nothing where none waits for a receipt under this name."""
    request = find(queue, name)
    if request is None or request.reason is not ReconciliationReason.PENDING_VERIFICATION:
        return []
    replacement = request.escalated(clock.utc_now())
    return [replacement] if queue.escalate(request.idempotency_key, replacement) else []


def to_json(request: ReconciliationRequest, now: datetime) -> dict[str, object]:
    """Return what is known of an entry."""
    return {
        "key": request.idempotency_key,
        "job_id": job_of(request),
        "partner_id": request.partner_id,
        "message_id": request.message_id,
        "reason": request.reason.value,
        "created_at": request.created_at.isoformat(timespec="milliseconds"),
        "age_s": int((now - request.created_at).total_seconds()),
    }


def table(counts: Mapping[str, int], documents: Sequence[Mapping[str, object]]) -> Group:
    """Return what a person reads."""
    columns = ("job_id", "reason", "age_s", "created_at", "key")
    entries = [[document[column] for column in columns] for document in documents]
    total = sum(counts.values())
    summed = ", ".join(f"{count} {reason}" for reason, count in counts.items())
    return Group(output.table(f"Unconfirmed, {len(entries)} of {total}", columns, entries), summed)
