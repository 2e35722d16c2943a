"""Builders of what storage takes: valid by default, changed by keyword."""

import itertools
from datetime import UTC, datetime

from reliability.dead_letter import DeadLetterRecord
from reliability.failures import SettlementFailureCode, SettlementFailureReason
from reliability.reconciliation import ReconciliationReason, ReconciliationRequest
from storage.job_ids import delivery_job_id
from storage.jobs import Claim, JobKind, Lease, NewJob
from storage.protocols import JobStorage

FINALIZED_AT = 1_750_000_000
CREATED_AT = datetime(2025, 6, 15, 12, 0, tzinfo=UTC)

_tokens = itertools.count()


def job(job_id: str = "rcpt-1", **changes: object) -> NewJob:
    """Return a settlement job."""
    content: dict[str, object] = {
        "kind": JobKind.SETTLEMENT,
        "queue": "settlement",
        "payload": b'{"receipt_id":"rcpt-1"}',
        "finalized_at": FINALIZED_AT,
    }
    return NewJob(job_id=job_id, **(content | changes))  # type: ignore[arg-type]  # a test may pass what is refused


def delivery_job(partner_id: str = "acme", message_id: str = "msg-1", **changes: object) -> NewJob:
    """Return a delivery job."""
    content: dict[str, object] = {"kind": JobKind.DELIVERY, "queue": "delivery", "payload": b"{}"}
    return job(delivery_job_id(partner_id, message_id), **(content | changes))


def lease(owner: str = "worker-1", token: str | None = None, lease_ms: int = 10_000) -> Lease:
    """Return a lease with a token that no other lease of the run has."""
    return Lease(owner=owner, token=token or f"token-{next(_tokens)}-", lease_ms=lease_ms)


def reason(detail: str = "status 503") -> SettlementFailureReason:
    """Return a failure reason."""
    return SettlementFailureReason.from_detail(SettlementFailureCode.RPC, detail)


def dead_letter(receipt_id: str = "rcpt-1", finalized_at: int = FINALIZED_AT, attempts: int = 6) -> DeadLetterRecord:
    """Return a dead letter."""
    return DeadLetterRecord.new(receipt_id, finalized_at, attempts, reason())


def pending(message_id: str = "msg-1", partner_id: str = "acme", at: datetime = CREATED_AT) -> ReconciliationRequest:
    """Return a request that waits for a receipt."""
    return ReconciliationRequest.new(ReconciliationReason.PENDING_VERIFICATION, message_id, partner_id, at)


def indeterminate(
    message_id: str = "msg-1", partner_id: str = "acme", at: datetime = CREATED_AT
) -> ReconciliationRequest:
    """Return a request whose outcome is unknown."""
    return ReconciliationRequest.new(ReconciliationReason.INDETERMINATE, message_id, partner_id, at)


def claimed(jobs: JobStorage, job_id: str = "rcpt-1", attempt: int = 0, by: Lease | None = None) -> Claim:
    """Claim the attempt, which has to be claimable."""
    result = jobs.claim(job_id, attempt, by or lease())
    assert isinstance(result, Claim), f"expected a claim on {job_id} attempt {attempt}, got: {result}"
    return result


def admitted_and_claimed(jobs: JobStorage, new: NewJob | None = None, by: Lease | None = None) -> Claim:
    """Admit the job and claim its attempt 0."""
    admitted = new or job()
    jobs.admit(admitted)
    return claimed(jobs, admitted.job_id, by=by)
