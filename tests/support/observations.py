"""A builder of settlement observations: valid ones, with some fields changed."""

from reliability.settlement import SettlementObservation


def observation(**changes: object) -> SettlementObservation:
    """Return a valid observation with some fields changed."""
    wire: dict[str, object] = {
        "schema": "chio.settle.observation.v1",
        "receipt_id": "rcpt-1",
        "finalized_at": 1_760_000_000,
        "tenant_id": "tenant-a",
        "tool_server": "srv-1",
        "tool_name": "search.query",
        "capability_id": "cap-1",
        "amount": {"units": 125, "currency": "EUR"},
        "content_hash": "c0ffee",
        "policy_hash": "f00d",
    }
    return SettlementObservation.from_wire({**wire, **changes})
