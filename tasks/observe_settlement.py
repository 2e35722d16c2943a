"""The Celery shell of `chio.settle.observe`: what a settlement message means and which flow runs it."""

from reliability.settlement import SettlementObservation
from storage import jobs
from tasks import messages, names, steps
from tasks.attempt_task import AttemptTask


class ObserveSettlement(AttemptTask):
    """Run one attempt of one settlement; a foreign producer sends the whole `observation`."""

    name = names.OBSERVE_SETTLEMENT
    whole_argument = "observation"

    def read(self, value: object) -> jobs.NewJob:
        """Read a whole observation and hold it to the limits of admission."""
        observation = SettlementObservation.from_wire(value)
        return messages.admissible_settlement(observation, self.runtime.max_payload_bytes)

    def attempt(self, claim: jobs.Claim) -> steps.Step:
        """Run the settlement flow."""
        return self.runtime.settlement.run(claim)
