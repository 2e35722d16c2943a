"""
Which receipts are believed: those that the producer's own intake vouches for, and those that their partner signed.

A message carries a trusted `receipt`, or a `signed` one: `{partner_id, headers, body}` exactly as the partner sent it.
Called where receipts come in: by `chio.deliver.confirm` and by `chio-worker enqueue receipts`.
"""

from collections.abc import Mapping
from typing import Final

from reliability import canonical, fields
from reliability.errors import InvalidInputError, InvalidMessageError
from reliability.receipt import DeliveryReceipt
from storage import job_ids
from tasks.confirm_flow import ReceiptPolicy

RECEIPT: Final = "receipt"
SIGNED: Final = "signed"

_SIGNED_FIELDS: Final = frozenset({"partner_id", "headers", "body"})


def arguments_of(line: bytes) -> dict[str, object]:
    """
    Read one receipt as a file holds it, and return the arguments that carry it in a message.

    Raises:
        InvalidInputError: It is no JSON object.

    """
    document = canonical.strict_json(line)
    if not isinstance(document, dict):
        raise InvalidInputError("receipt", f"expected an object, got {fields.kind_of(document)}")
    return {RECEIPT if "schema" in document else SIGNED: document}


def believed(arguments: Mapping[str, object], policy: ReceiptPolicy | None) -> DeliveryReceipt:
    """
    Return the receipt if it may be believed; without a policy no partner is known, and none of a partner's is.

    Raises:
        InvalidInputError: It is malformed, not signed by whom it has to be, or speaks of another partner.

    """
    if set(arguments) not in ({RECEIPT}, {SIGNED}):
        raise InvalidMessageError(field="arguments", problem=f"expected exactly one of {RECEIPT!r} and {SIGNED!r}")
    if SIGNED in arguments:
        return _signed(arguments[SIGNED], policy)
    receipt = DeliveryReceipt.from_wire(arguments[RECEIPT])
    if receipt.partner_id != job_ids.SETTLEMENT_PARTNER_ID and (
        policy is None or policy.must_be_signed(receipt.partner_id)
    ):
        raise InvalidMessageError(field=RECEIPT, problem="the partner's receipts must be signed; send 'signed'")
    return receipt


def _signed(value: object, policy: ReceiptPolicy | None) -> DeliveryReceipt:
    """Read a signed receipt if the named partner signed it and it speaks of that partner."""
    if not isinstance(value, dict):
        raise InvalidMessageError(field=SIGNED, problem="expected an object")
    found = fields.members(SIGNED, value, _SIGNED_FIELDS)
    partner_id, body = fields.text("signed.partner_id", found["partner_id"]), fields.text("signed.body", found["body"])
    headers = found["headers"]
    if not isinstance(headers, dict) or not all(isinstance(text, str) for pair in headers.items() for text in pair):
        raise InvalidMessageError(field="signed.headers", problem="expected an object of strings")
    if policy is None or not policy.is_signed_by(partner_id, headers, body.encode()):
        raise InvalidMessageError(field="signed.headers", problem="expected the signature of a known partner")
    receipt = DeliveryReceipt.from_json(body)
    if receipt.partner_id != partner_id:
        raise InvalidMessageError(field="signed.body", problem="expected a receipt of the partner that signed it")
    return receipt
