"""
The Celery shell of `chio.deliver.confirm`: takes receipts in, refuses those nobody signed, reports the rest.

`receipt_messages` says what a message carries and who is believed. What is refused or unknown is kept in quarantine
with its bytes and resolves nothing.
"""

from collections.abc import Mapping

from reliability.errors import InvalidInputError, InvalidMessageError, StorageUnavailableError
from reliability.events import Event
from reliability.receipt import DeliveryReceipt
from tasks import crash_points, names, receipt_messages
from tasks.base import UNREACHABLE_RETRY_MS, RuntimeTask
from tasks.confirm_flow import ConfirmFlow, ReceiptAnswer, receipt_job_id
from tasks.crash_points import CrashPoint
from tasks.emit import emit, warn


class ConfirmDelivery(RuntimeTask):
    """Correlate one receipt with its delivery."""

    name = names.CONFIRM_DELIVERY

    def run(self, **kwargs: object) -> None:
        """Apply the receipt; quarantine what is malformed, unsigned, forged, conflicting or unknown."""
        try:
            policy = self.runtime.delivery.receipts if self.runtime.delivery else None
            receipt = receipt_messages.believed(kwargs, policy)
            answer = ConfirmFlow(ledger=self.runtime.storage.jobs, dead_letters=self.runtime.storage.dead_letters).run(
                receipt
            )
        except InvalidInputError as error:
            return self.quarantine(kwargs, error)
        except StorageUnavailableError:
            self.come_back(UNREACHABLE_RETRY_MS / 1000)
        crash_points.reach(CrashPoint.CONFIRM_AFTER_STORE)
        return self._report(kwargs, receipt, answer)

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
