"""
The record of a job that cannot succeed, schema chio.settle.dead-letter.v1.

Stored and published bytes are its RFC 8785 form; a record that has no such form is refused when it is made. It holds
the digest of the failure's detail, never the detail.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from reliability import canonical, fields
from reliability.errors import InvalidInputError, InvalidRecordError
from reliability.failures import SettlementFailureCode, SettlementFailureReason

DEAD_LETTER_SCHEMA = "chio.settle.dead-letter.v1"

_RECORD_FIELDS = frozenset({"schema", "receipt_id", "finalized_at", "attempts", "reason"})
_LEGACY_FIELDS = frozenset({"pipeline_error"})
_NOTHING = frozenset[str]()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterRecord:
    """Hold which receipt died, after how many attempts and why."""

    receipt_id: str
    #: Unix seconds, at most 2^53 - 1: a larger one has no canonical form.
    finalized_at: int
    attempts: int
    reason: SettlementFailureReason

    def __post_init__(self) -> None:
        fields.text("dead letter receipt_id", self.receipt_id)
        fields.unsigned("dead letter finalized_at", self.finalized_at, canonical.MAX_SAFE_INTEGER)
        fields.unsigned("dead letter attempts", self.attempts, fields.U32_MAX)

    @classmethod
    def new(cls, receipt_id: str, finalized_at: int, attempts: int, reason: SettlementFailureReason) -> Self:
        """
        Make the record of a job that died just now; attempts count from 1.

        Raises:
            InvalidInputError: A number is past its width, or finalized_at past 2^53 - 1.

        """
        counted = max(1, fields.unsigned("dead letter attempts", attempts, fields.U32_MAX))
        return cls(receipt_id=receipt_id, finalized_at=finalized_at, attempts=counted, reason=reason)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """
        Read a record in its typed form, or in the legacy form whose reason is a text.

        Raises:
            InvalidRecordError: With what is wrong.

        """
        try:
            return cls._from_wire(canonical.strict_json(text))
        except InvalidInputError as error:
            raise InvalidRecordError("dead letter", str(error)) from error

    @property
    def schema(self) -> str:
        """Return the schema tag, the same for every record."""
        return DEAD_LETTER_SCHEMA

    @property
    def ordering_key(self) -> tuple[int, bytes]:
        """Return what listings are ordered by: time, then the id's bytes."""
        return (self.finalized_at, self.receipt_id.encode("utf-8"))

    def to_wire(self) -> dict[str, object]:
        """Return the JSON form in the order of the fields."""
        return {
            "schema": self.schema,
            "receipt_id": self.receipt_id,
            "finalized_at": self.finalized_at,
            "attempts": self.attempts,
            "reason": self.reason.to_wire(),
        }

    def canonical_json(self) -> bytes:
        """Return the bytes that are stored and published."""
        return canonical.canonical_json(self.to_wire())

    @classmethod
    def _from_wire(cls, value: object) -> Self:
        legacy = isinstance(value, dict) and isinstance(value.get("reason"), str)
        found = fields.members("record", value, _RECORD_FIELDS, _LEGACY_FIELDS if legacy else _NOTHING)
        if found["schema"] != DEAD_LETTER_SCHEMA:
            raise InvalidInputError("schema", f"expected {DEAD_LETTER_SCHEMA}, got another")
        typed = _legacy_reason(found) if legacy else SettlementFailureReason.from_wire(found["reason"])
        return cls(
            receipt_id=fields.text("receipt_id", found["receipt_id"]),
            finalized_at=fields.unsigned("finalized_at", found["finalized_at"], canonical.MAX_SAFE_INTEGER),
            attempts=fields.unsigned("attempts", found["attempts"], fields.U32_MAX),
            reason=typed,
        )


def _legacy_reason(found: Mapping[str, object]) -> SettlementFailureReason:
    pipeline_error = found.get("pipeline_error")
    detail = found["reason"] if pipeline_error is None else pipeline_error
    return SettlementFailureReason.from_detail(SettlementFailureCode.BACKEND, fields.text("pipeline_error", detail))
