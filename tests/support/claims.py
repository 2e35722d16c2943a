"""Builders of claims and observations for flow tests: valid by default, changed by keyword."""

from reliability.delivery_request import DeliveryRequest
from reliability.settlement import SettlementObservation
from storage.jobs import Claim, ClaimCause, JobKind

FIRST_ATTEMPT_AT_MS = 1_750_000_000_000


def observation(receipt_id: str = "rcpt-1", **changes: object) -> SettlementObservation:
    """Return a valid observation."""
    wire: dict[str, object] = {
        "schema": "chio.settle.observation.v1",
        "receipt_id": receipt_id,
        "finalized_at": 1_750_000_000,
        "tenant_id": "tenant-1",
        "tool_server": "payments",
        "tool_name": "charge",
        "capability_id": "cap-1",
        "amount": {"units": 1250, "currency": "EUR"},
        "content_hash": "c" * 64,
        "policy_hash": "p" * 64,
    }
    return SettlementObservation.from_wire(wire | changes)


def settlement_claim(
    attempt: int = 0, cause: ClaimCause = ClaimCause.DUE, payload: bytes | None = None, receipt_id: str = "rcpt-1"
) -> Claim:
    """Return a claim on a settlement."""
    return Claim(
        job_id=receipt_id,
        kind=JobKind.SETTLEMENT,
        queue="settlement",
        attempt=attempt,
        version=1,
        token="token-1",
        lease_until_ms=FIRST_ATTEMPT_AT_MS + 15_000,
        payload=observation(receipt_id).canonical_json() if payload is None else payload,
        finalized_at=1_750_000_000,
        admitted_at_ms=FIRST_ATTEMPT_AT_MS - 1_000,
        first_attempt_at_ms=FIRST_ATTEMPT_AT_MS,
        cause=cause,
        claimed_at_ms=FIRST_ATTEMPT_AT_MS,
    )


def delivery_request(message_id: str = "msg-1", partner_id: str = "acme") -> DeliveryRequest:
    """Return a valid delivery request."""
    return DeliveryRequest.from_wire(
        {
            "schema": "chio.deliver.request.v1",
            "message_id": message_id,
            "partner_id": partner_id,
            "content_type": "application/json",
            "body": '{"order": 7}',
            "created_at": 1_750_000_000,
        }
    )


def delivery_claim(attempt: int = 0, cause: ClaimCause = ClaimCause.DUE, payload: bytes | None = None) -> Claim:
    """Return a claim on a delivery to partner acme."""
    return Claim(
        job_id="delivery:acme:msg-1",
        kind=JobKind.DELIVERY,
        queue="delivery",
        attempt=attempt,
        version=1,
        token="token-1",
        lease_until_ms=FIRST_ATTEMPT_AT_MS + 15_000,
        payload=delivery_request().canonical_json() if payload is None else payload,
        finalized_at=1_750_000_000,
        admitted_at_ms=FIRST_ATTEMPT_AT_MS - 1_000,
        first_attempt_at_ms=FIRST_ATTEMPT_AT_MS,
        cause=cause,
        claimed_at_ms=FIRST_ATTEMPT_AT_MS,
    )
