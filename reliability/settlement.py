"""
The settlement observation a producer sends and the outcome a rail answers, as they stand on the wire.

Decoding refuses what the contract does not name. Sizes and header safety of ids are checked where messages are
admitted, not here.
"""

from typing import Annotated, Literal, Self, assert_never

import pydantic

from reliability import canonical, failures, fields, reading
from reliability.errors import InvalidInputError
from reliability.failures import SettlementFailureCode, SettlementFailureReason
from reliability.outcomes import Accepted, ClassifiedResult, Permanent, Retryable, Skipped

OBSERVATION_SCHEMA = "chio.settle.observation.v1"
OUTCOME_SCHEMA = "chio.settle.outcome.v2"

UnixSeconds = Annotated[int, pydantic.Field(ge=0, le=fields.U64_MAX)]

_ACCEPTED_FIELDS = frozenset({"kind", "schema", "transcript_id"})
_REASON_FIELDS = frozenset({"kind", "schema", "reason"})


#: Quotation marks in an observation: of 11 names and 8 texts, and of the tenant's.
_QUOTES = 2 * (11 + 8)
_QUOTES_WITH_TENANT = _QUOTES + 2 * 2


class Amount(pydantic.BaseModel):
    """Hold a strictly positive amount in the currency's minor unit."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", strict=True)

    currency: str = pydantic.Field(pattern=r"^[A-Z]{3}$")
    units: int = pydantic.Field(ge=1, le=fields.U64_MAX)


class SettlementObservation(pydantic.BaseModel):
    """Hold one finalised receipt on its way to a settlement rail; the fields stand in the order of canonical JSON."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", strict=True)

    amount: Amount
    capability_id: str
    content_hash: str
    finalized_at: UnixSeconds
    policy_hash: str
    receipt_id: str = pydantic.Field(min_length=1)
    #: Named `schema` on the wire and in the constructor; pydantic keeps that attribute name for itself.
    schema_tag: Literal["chio.settle.observation.v1"] = pydantic.Field(alias="schema")
    tenant_id: str | None = None
    tool_name: str
    tool_server: str

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """
        Read an observation.

        Raises:
            InvalidInputError: With the field that is wrong and the kind of value it holds, never the value.

        """
        at_once = reading.read_at_once(cls, text, cls._quotes)
        return at_once or cls.from_wire(canonical.strict_json(text))

    def _quotes(self) -> int | None:
        # The parser reads -0 as 0.
        if not self.finalized_at:
            return None
        return _QUOTES if self.tenant_id is None else _QUOTES_WITH_TENANT

    @classmethod
    def from_wire(cls, value: object) -> Self:
        """
        Read an observation that is decoded JSON already, such as a task's keyword argument.

        Raises:
            InvalidInputError: As `from_json`.

        """
        try:
            return cls.model_validate(value)
        except pydantic.ValidationError as error:
            raise fields.from_validation("observation", error) from None

    def to_wire(self) -> dict[str, object]:
        """Return the JSON form; an absent tenant is left out."""
        return self.model_dump(by_alias=True, exclude_none=True)

    def canonical_json(self) -> bytes:
        """
        Return the bytes every attempt sends.

        Raises:
            InvalidInputError: A number is past 2^53 - 1 and has no canonical form.

        """
        return canonical.canonical_json(self.to_wire())

    @property
    def ordering_key(self) -> tuple[int, bytes]:
        """Return what batches are ordered by: time, then the id's bytes."""
        return (self.finalized_at, self.receipt_id.encode("utf-8"))


class SettlementOutcome:
    """Read and write the wire form of an outcome; the value itself is one of the classes in `reliability.outcomes`."""

    @staticmethod
    def from_json(text: str | bytes) -> ClassifiedResult:
        """
        Read an outcome; one with another schema is a permanent invalid_observation failure.

        A retryable outcome whose code may not retry is read as permanent.

        Raises:
            InvalidInputError: With the field that is wrong.

        """
        return SettlementOutcome.from_wire(canonical.strict_json(text))

    @staticmethod
    def from_wire(value: object) -> ClassifiedResult:
        """
        Read an outcome that is decoded JSON already.

        Raises:
            InvalidInputError: As `from_json`.

        """
        if not isinstance(value, dict):
            raise InvalidInputError("outcome", f"expected an object, got {fields.kind_of(value)}")
        # The schema is looked at first: what another version calls its fields is not ours to judge.
        if fields.text("outcome.schema", value.get("schema")) != OUTCOME_SCHEMA:
            return _other_schema(str(value["schema"]))
        return _current_schema(value)

    @staticmethod
    def canonical_json(result: ClassifiedResult) -> bytes:
        """Write an outcome as canonical bytes."""
        return canonical.canonical_json({"schema": OUTCOME_SCHEMA, **_kind_and_facts(result)})


def hold_to_contract(observation: SettlementObservation, result: ClassifiedResult) -> ClassifiedResult:
    """Turn a skip of a positive amount into the permanent failure it is: only a zero charge may be skipped."""
    if isinstance(result, Skipped) and observation.amount.units > 0:
        detail = f"the hook answered skipped ({result.reason}) for a positive amount"
        return Permanent(SettlementFailureReason.from_detail(SettlementFailureCode.INVALID_OBSERVATION, detail))
    return result


def _other_schema(schema: str) -> Permanent:
    detail = f"expected outcome schema {OUTCOME_SCHEMA}, got {schema}"
    return Permanent(SettlementFailureReason.from_detail(SettlementFailureCode.INVALID_OBSERVATION, detail))


def _current_schema(value: dict[str, object]) -> ClassifiedResult:
    match value.get("kind"):
        case "accepted":
            found = fields.members("outcome", value, _ACCEPTED_FIELDS)
            return Accepted(fields.text("outcome.transcript_id", found["transcript_id"]))
        case "skipped":
            found = fields.members("outcome", value, _REASON_FIELDS)
            return Skipped(failures.skip_reason_from_wire(found["reason"]))
        case "retryable" | "permanent" as kind:
            found = fields.members("outcome", value, _REASON_FIELDS)
            reason = SettlementFailureReason.from_wire(found["reason"])
            return Retryable(reason) if kind == "retryable" and failures.may_retry(reason.code) else Permanent(reason)
        case _:
            raise InvalidInputError("outcome.kind", "expected accepted, skipped, retryable or permanent")


def _kind_and_facts(result: ClassifiedResult) -> dict[str, object]:
    match result:
        case Accepted(transcript_id):
            return {"kind": "accepted", "transcript_id": transcript_id}
        case Skipped(reason):
            return {"kind": "skipped", "reason": reason.value}
        case Retryable(failure):
            return {"kind": "retryable", "reason": failure.to_wire()}
        case Permanent(failure):
            return {"kind": "permanent", "reason": failure.to_wire()}
        case _:
            assert_never(result)
