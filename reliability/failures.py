"""
Why a settlement or a delivery failed, as a closed taxonomy.

A reason is a code plus the SHA-256 of the detail; the detail itself is hashed here and kept nowhere.
"""

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from reliability import canonical, fields
from reliability.errors import InvalidInputError

_DIGEST_BYTES = 32
_BYTE_MAX = 255
_REASON_FIELDS = frozenset({"code", "detail_sha256"})


class SettlementFailureClass(StrEnum):
    """Say whether the same call may succeed later."""

    RETRYABLE = "retryable"
    PERMANENT = "permanent"


class SettlementFailureCode(StrEnum):
    """Name what failed."""

    INVALID_RECEIPT_SIGNATURE = "invalid_receipt_signature"
    INVALID_ACTION_HASH = "invalid_action_hash"
    UNTRUSTED_RECEIPT_SIGNER = "untrusted_receipt_signer"
    MALFORMED_FINANCIAL_METADATA = "malformed_financial_metadata"
    INVALID_OBSERVATION = "invalid_observation"
    RPC = "rpc"
    INVALID_INPUT = "invalid_input"
    INVALID_DISPATCH = "invalid_dispatch"
    INVALID_BINDING = "invalid_binding"
    UNSUPPORTED = "unsupported"
    SERIALIZATION = "serialization"
    SIGNATURE = "signature"
    VERIFICATION = "verification"
    BACKEND = "backend"


class SettlementSkipReason(StrEnum):
    """Name why there was nothing to settle."""

    DENIED = "denied"
    NO_ECONOMIC_INTENT = "no_economic_intent"
    ZERO_CHARGE = "zero_charge"


#: The only codes a hook's call is repeated for, whatever the hook asked.
RETRYABLE_CODES = frozenset({SettlementFailureCode.RPC, SettlementFailureCode.BACKEND})


def may_retry(code: SettlementFailureCode) -> bool:
    """Tell whether a failure with this code may be tried again."""
    return code in RETRYABLE_CODES


def failure_class(code: SettlementFailureCode) -> SettlementFailureClass:
    """Return the class a code belongs to."""
    return SettlementFailureClass.RETRYABLE if may_retry(code) else SettlementFailureClass.PERMANENT


@dataclass(frozen=True, slots=True, kw_only=True)
class SettlementFailureReason:
    """Hold a failure's code and the SHA-256 of its detail."""

    code: SettlementFailureCode
    detail_sha256: bytes

    def __post_init__(self) -> None:
        if len(self.detail_sha256) != _DIGEST_BYTES:
            got = len(self.detail_sha256)
            raise InvalidInputError("reason.detail_sha256", f"expected {_DIGEST_BYTES} bytes, got {got}")

    @classmethod
    def from_detail(cls, code: SettlementFailureCode, detail: str) -> Self:
        """Hash the detail's UTF-8 bytes and forget it."""
        # Details come from foreign exceptions: a lone surrogate in one must not hide the failure it describes.
        digest = hashlib.sha256(detail.encode("utf-8", "surrogatepass")).digest()
        return cls(code=code, detail_sha256=digest)

    @classmethod
    def from_wire(cls, value: object) -> Self:
        """
        Read the decoded JSON form, refusing unknown fields.

        Raises:
            InvalidInputError: With the field that is wrong.

        """
        found = fields.members("reason", value, _REASON_FIELDS)
        return cls(code=_code(found["code"]), detail_sha256=_digest(found["detail_sha256"]))

    def to_wire(self) -> dict[str, object]:
        """Return the JSON form: the code, and the digest as an array of 32 integers."""
        return {"code": self.code.value, "detail_sha256": list(self.detail_sha256)}


def skip_reason_from_wire(value: object) -> SettlementSkipReason:
    """
    Read a skip reason.

    Raises:
        InvalidInputError: The value is no skip reason.

    """
    if isinstance(value, str) and value in frozenset(SettlementSkipReason):
        return SettlementSkipReason(value)
    raise InvalidInputError("reason", f"expected one of {', '.join(SettlementSkipReason)}, got {_named(value)}")


def _code(value: object) -> SettlementFailureCode:
    if isinstance(value, str) and value in frozenset(SettlementFailureCode):
        return SettlementFailureCode(value)
    raise InvalidInputError("reason.code", f"expected a failure code, got {_named(value)}")


def _digest(value: object) -> bytes:
    if not isinstance(value, list) or len(value) != _DIGEST_BYTES:
        got = f"{len(value)} entries" if isinstance(value, list) else fields.kind_of(value)
        raise InvalidInputError("reason.detail_sha256", f"expected an array of {_DIGEST_BYTES} integers, got {got}")
    return bytes(fields.unsigned("reason.detail_sha256", entry, _BYTE_MAX) for entry in value)


def _named(value: object) -> str:
    return canonical.shown_name(value) if isinstance(value, str) else fields.kind_of(value)
