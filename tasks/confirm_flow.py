"""
What a receipt means for its job: late, repeated, conflicting or unknown. Knows no Celery and no Redis.

Whichever reconciliation key is there is resolved by the same script that ends the job, so a receipt that comes after
the escalation counts as much as one that comes before.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from reliability.dead_letter import DeadLetterRecord
from reliability.receipt import DeliveryReceipt, Verdict
from storage import job_ids, jobs
from storage.protocols import DeadLetterStorage, JobStorage


class ReceiptAnswer(StrEnum):
    """Name what became of a receipt."""

    RESOLVED = "resolved"
    REPEATED = "repeated"
    CONFLICTING = "conflicting"
    UNKNOWN = "unknown"


class ReceiptPolicy(Protocol):
    """Say which receipts of a partner are believed."""

    def must_be_signed(self, partner_id: str) -> bool:
        """Tell whether an unsigned receipt of this partner is refused."""
        ...

    def is_signed_by(self, partner_id: str, headers: Mapping[str, str], body: bytes) -> bool:
        """Tell whether the Standard Webhooks signature of the body was made with one of the partner's secrets."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmFlow:
    """Hold what the correlation needs."""

    ledger: JobStorage
    dead_letters: DeadLetterStorage

    def run(self, receipt: DeliveryReceipt) -> ReceiptAnswer:
        """
        Apply the receipt to its job and say what it was.

        Raises:
            StorageUnavailableError: if the ledger did not answer; the receipt is to be handed in again.

        """
        job_id = receipt_job_id(receipt)
        while row := self.ledger.get(job_id):
            if row.first_attempt_at_ms is None:
                return ReceiptAnswer.UNKNOWN  # Nothing was sent yet, so nobody can have received it.
            if self.ledger.conclude(job_id, row.version, self._transition(row, receipt)):
                return ReceiptAnswer.RESOLVED
        return self._of_ended(job_id, receipt.says)

    def _transition(self, row: jobs.JobRow, receipt: DeliveryReceipt) -> jobs.Finish | jobs.Bury:
        if receipt.says is Verdict.CONFIRMED:
            settles = row.kind is jobs.JobKind.SETTLEMENT
            return jobs.Finish(finished_as=jobs.FinishedAs.SETTLED if settles else jobs.FinishedAs.CONFIRMED)
        reason = receipt.failure_reason()
        return jobs.Bury(record=DeadLetterRecord.new(row.job_id, row.finalized_at, row.attempt + 1, reason))

    def _of_ended(self, job_id: str, verdict: Verdict) -> ReceiptAnswer:
        if self.dead_letters.get(job_id):
            return ReceiptAnswer.REPEATED if verdict is Verdict.FAILED else ReceiptAnswer.CONFLICTING
        match self.ledger.ending(job_id):
            case jobs.FinishedAs.CONFIRMED | jobs.FinishedAs.SETTLED:
                return ReceiptAnswer.REPEATED if verdict is Verdict.CONFIRMED else ReceiptAnswer.CONFLICTING
            case _:
                return ReceiptAnswer.UNKNOWN


def receipt_job_id(receipt: DeliveryReceipt) -> str:
    """Return the id of the job a receipt is about."""
    if receipt.partner_id == job_ids.SETTLEMENT_PARTNER_ID:
        return receipt.message_id
    return job_ids.delivery_job_id(receipt.partner_id, receipt.message_id)
