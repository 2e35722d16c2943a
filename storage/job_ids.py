"""
The ids of deliveries, and which reconciliation entries belong to a job.

A settlement's job id is its receipt id; a delivery's is made of its partner and message.
"""

from reliability import reconciliation
from reliability.delivery_request import delivery_job_id
from reliability.reconciliation import ReconciliationRequest

__all__ = ["SETTLEMENT_PARTNER_ID", "delivery_job_id", "delivery_of", "job_of", "reconciliation_keys"]

#: The partner id under which a settlement that waits for a receipt is kept in reconciliation; no partner may use it.
SETTLEMENT_PARTNER_ID = "settlement"

_DELIVERY_PREFIX = "delivery"
_PARTS = 3


def delivery_of(job_id: str) -> tuple[str, str] | None:
    """Return partner id and message id of a delivery's job id; None for any other id."""
    if not job_id.startswith(_DELIVERY_PREFIX):
        return None
    parts = job_id.split(":")
    if len(parts) != _PARTS or parts[0] != _DELIVERY_PREFIX or not (parts[1] and parts[2]):
        return None
    partner_id, message_id = _decoded(parts[1]), _decoded(parts[2])
    return (partner_id, message_id) if delivery_job_id(partner_id, message_id) == job_id else None


def job_of(request: ReconciliationRequest) -> str:
    """Return the id of the job a reconciliation request is about."""
    if request.partner_id == SETTLEMENT_PARTNER_ID:
        return request.message_id
    return delivery_job_id(request.partner_id, request.message_id)


def reconciliation_keys(job_id: str) -> list[str]:
    """Return every key under which reconciliation may keep the job, escalated or not."""
    keys = reconciliation.keys_for(SETTLEMENT_PARTNER_ID, job_id)
    if delivery := delivery_of(job_id):
        keys += reconciliation.keys_for(*delivery)
    return keys


def _decoded(identifier: str) -> str:
    return identifier.replace("%3A", ":").replace("%25", "%")
