"""The Celery shell of `chio.settle.observe`: decode, claim, and hand over to the settlement flow."""

import json

from reliability.errors import InvalidInputError, StorageUnavailableError
from reliability.events import Event
from reliability.settlement import SettlementObservation
from storage import jobs
from tasks import messages, names
from tasks.base import UNREACHABLE_RETRY_S, RuntimeTask
from tasks.emit import warn


class ObserveSettlement(RuntimeTask):
    """
    Run one attempt of one settlement.

    Called with `job_id` and `attempt` by this project's producers and retries, or with a whole `observation` by a
    foreign producer, which is admitted in the same script that claims it.
    """

    name = names.OBSERVE_SETTLEMENT

    def run(self, **kwargs: object) -> None:
        """Claim the attempt and run it; a message that does not follow the contract is quarantined."""
        try:
            message = messages.decode_settlement(kwargs)
            job_id, claimed = self._claim(message)
        except InvalidInputError as error:
            return self._quarantine(kwargs, error)
        except StorageUnavailableError:
            # Fail closed: nothing is assumed new, and the only copy of a foreign observation may be this message.
            self.come_back(UNREACHABLE_RETRY_S)
        return self.answer_claim(job_id, claimed, self.runtime.settlement.run)

    def _claim(self, message: messages.WakeUpMessage | SettlementObservation) -> tuple[str, jobs.AdmitAndClaimResult]:
        ledger, lease = self.runtime.storage.jobs, self.runtime.new_lease()
        if isinstance(message, messages.WakeUpMessage):
            return message.job_id, ledger.claim(message.job_id, message.attempt, lease)
        job = messages.admissible_settlement(message, self.runtime.max_payload_bytes)
        return job.job_id, ledger.admit_and_claim(job, lease)

    def _quarantine(self, kwargs: dict[str, object], error: InvalidInputError) -> None:
        raw = json.dumps(kwargs, default=repr).encode()
        self.runtime.quarantine.keep(raw, names.SETTLEMENT_QUEUE, f"invalid_message:{error.field}")
        warn(Event.MESSAGE_QUARANTINED, queue=names.SETTLEMENT_QUEUE, field=error.field)
