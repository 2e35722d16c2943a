"""Write circuit states as canonical bytes, so that two equal states are equal bytes, and read them back."""

from typing import assert_never

from reliability import canonical, fields
from reliability.circuit import CircuitState, Closed, HalfOpen, Open
from reliability.errors import InvalidInputError, InvalidRecordError

_OPENED = frozenset({"state", "opened_at_ms"})


def encoded(state: CircuitState) -> bytes:
    """Return the bytes that are stored."""
    match state:
        case Closed(consecutive_failures=failures):
            return canonical.canonical_json({"state": "closed", "consecutive_failures": failures})
        case Open(opened_at_ms=opened, probe_at_ms=probe):
            return canonical.canonical_json({"state": "open", "opened_at_ms": opened, "probe_at_ms": probe})
        case HalfOpen(opened_at_ms=opened, probe_token=token, probe_deadline_at_ms=deadline):
            wire = {"state": "half_open", "opened_at_ms": opened}
            return canonical.canonical_json({**wire, "probe_token": token, "probe_deadline_at_ms": deadline})
        case _:
            assert_never(state)


def decoded(partner_id: str, stored: bytes) -> CircuitState:
    """
    Read a stored state.

    Raises:
        InvalidRecordError: With what is wrong.

    """
    try:
        return _from_wire(canonical.strict_json(stored))
    except InvalidInputError as error:
        raise InvalidRecordError(f"circuit of {partner_id!r}", str(error)) from error


def _from_wire(value: object) -> CircuitState:
    tag = value.get("state") if isinstance(value, dict) else None
    match tag:
        case "closed":
            found = fields.members("circuit", value, frozenset({"state", "consecutive_failures"}))
            return Closed(consecutive_failures=_number("consecutive_failures", found["consecutive_failures"]))
        case "open":
            found = fields.members("circuit", value, _OPENED | {"probe_at_ms"})
            probe_at_ms = _number("probe_at_ms", found["probe_at_ms"])
            return Open(opened_at_ms=_number("opened_at_ms", found["opened_at_ms"]), probe_at_ms=probe_at_ms)
        case "half_open":
            found = fields.members("circuit", value, _OPENED | {"probe_token", "probe_deadline_at_ms"})
            token = found["probe_token"]
            return HalfOpen(
                opened_at_ms=_number("opened_at_ms", found["opened_at_ms"]),
                probe_token=None if token is None else fields.text("probe_token", token),
                probe_deadline_at_ms=_number("probe_deadline_at_ms", found["probe_deadline_at_ms"]),
            )
        case _:
            raise InvalidInputError("state", "expected closed, open or half_open")


def _number(field: str, value: object) -> int:
    return fields.unsigned(field, value, canonical.MAX_SAFE_INTEGER)
