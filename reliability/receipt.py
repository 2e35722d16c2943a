"""
What a partner says later about a delivery it accepted: schema chio.deliver.receipt.v1.

A receipt comes from the producer's own intake (trusted) or signed by the partner; who may be believed is decided in
`tasks.confirm_flow`. The detail is only ever hashed.
"""

from enum import StrEnum
from typing import Annotated, Final, Literal, Self

import pydantic

from reliability import canonical, fields
from reliability.failures import SettlementFailureCode, SettlementFailureReason

RECEIPT_SCHEMA: Final = "chio.deliver.receipt.v1"

_Id = Annotated[str, pydantic.Field(pattern=r"^[!-~]{1,200}$")]


class Verdict(StrEnum):
    """Name what the receipt says."""

    CONFIRMED = "confirmed"
    FAILED = "failed"


class DeliveryReceipt(pydantic.BaseModel):
    """Hold one receipt. `detail` says why a delivery failed; it is hashed and not kept."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", strict=True)

    schema_tag: Literal["chio.deliver.receipt.v1"] = pydantic.Field(alias="schema")
    partner_id: _Id
    message_id: _Id
    verdict: Literal["confirmed", "failed"]
    detail: Annotated[str, pydantic.Field(max_length=10_000, repr=False)] = ""

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """
        Read a receipt.

        Raises:
            InvalidInputError: With the field that is wrong and the kind of value it holds.

        """
        return cls.from_wire(canonical.strict_json(text))

    @classmethod
    def from_wire(cls, value: object) -> Self:
        """
        Read a receipt that is decoded JSON already.

        Raises:
            InvalidInputError: As `from_json`.

        """
        try:
            return cls.model_validate(value)
        except pydantic.ValidationError as error:
            raise fields.from_validation("receipt", error) from None

    @property
    def says(self) -> Verdict:
        """Return the verdict."""
        return Verdict(self.verdict)

    def failure_reason(self) -> SettlementFailureReason:
        """Return what a dead letter says of a failed one."""
        return SettlementFailureReason.from_detail(SettlementFailureCode.VERIFICATION, self.detail)
