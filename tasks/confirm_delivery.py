"""
The Celery shell of `chio.deliver.confirm`: takes receipts in, refuses those nobody signed, reports the rest.

A message carries a trusted `receipt`, or a `signed` one: `{partner_id, headers, body}` exactly as the partner sent it.
What is refused or unknown is kept in quarantine with its bytes and resolves nothing.
"""

from collections.abc import Mapping

from reliability import fields
from reliability.errors import InvalidInputError, InvalidMessageError, StorageUnavailableError
from reliability.events import Event
from reliability.receipt import DeliveryReceipt
from tasks import crash_points, names
from tasks.base import UNREACHABLE_RETRY_MS, RuntimeTask
from tasks.confirm_flow import ConfirmFlow, ReceiptAnswer, ReceiptPolicy, receipt_job_id
from tasks.crash_points import CrashPoint
from tasks.emit import emit, warn

_SIGNED_FIELDS = frozenset({"partner_id", "headers", "body"})


class ConfirmDelivery(RuntimeTask):
    """Correlate one receipt with its delivery."""

    name = names.CONFIRM_DELIVERY

    def run(self, **kwargs: object) -> None:
        """Apply the receipt; quarantine what is malformed, unsigned, forged, conflicting or unknown."""
        try:
            receipt = self._believed(kwargs)
            answer = ConfirmFlow(ledger=self.runtime.storage.jobs, dead_letters=self.runtime.storage.dead_letters).run(
                receipt
            )
        except InvalidInputError as error:
            return self.quarantine(kwargs, error)
        except StorageUnavailableError:
            self.come_back(UNREACHABLE_RETRY_MS / 1000)
        crash_points.reach(CrashPoint.CONFIRM_AFTER_STORE)
        return self._report(kwargs, receipt, answer)

    def _believed(self, kwargs: Mapping[str, object]) -> DeliveryReceipt:
        if set(kwargs) not in ({"receipt"}, {"signed"}):
            raise InvalidMessageError(field="arguments", problem="expected exactly one of 'receipt' and 'signed'")
        policy = self.runtime.delivery.receipts if self.runtime.delivery else None
        if "signed" in kwargs:
            return _signed(kwargs["signed"], policy)
        receipt = DeliveryReceipt.from_wire(kwargs["receipt"])
        if policy is not None and policy.must_be_signed(receipt.partner_id):
            raise InvalidMessageError(field="receipt", problem="the partner's receipts must be signed; send 'signed'")
        return receipt

    def _report(self, kwargs: Mapping[str, object], receipt: DeliveryReceipt, answer: ReceiptAnswer) -> None:
        partner_id, message_id = receipt.partner_id, receipt.message_id
        match answer:
            case ReceiptAnswer.RESOLVED:
                emit(Event.RECONCILIATION_RECONCILED, job_id=receipt_job_id(receipt), partner_id=partner_id)
            case ReceiptAnswer.REPEATED:
                emit(Event.RECEIPT_REPEATED, partner_id=partner_id, message_id=message_id)
            case ReceiptAnswer.CONFLICTING:
                warn(Event.RECEIPT_CONFLICTING, partner_id=partner_id, message_id=message_id)
                self.quarantine(kwargs, InvalidMessageError(field="receipt_conflicting", problem="disagrees"))
            case ReceiptAnswer.UNKNOWN:
                warn(Event.RECEIPT_UNKNOWN, partner_id=partner_id, message_id=message_id)
                self.quarantine(kwargs, InvalidMessageError(field="receipt_unknown", problem="no such delivery"))


def _signed(value: object, policy: ReceiptPolicy | None) -> DeliveryReceipt:
    """Read a signed receipt if the named partner signed it and it speaks of that partner."""
    if not isinstance(value, dict):
        raise InvalidMessageError(field="signed", problem="expected an object")
    found = fields.members("signed", value, _SIGNED_FIELDS)
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
