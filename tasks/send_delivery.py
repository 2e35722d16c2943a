"""The Celery shell of `chio.deliver.send`: what a delivery message means and which flow runs it."""

from collections.abc import Sequence
from typing import Final

from reliability.delivery_request import DeliveryRequest
from reliability.errors import InvalidInputError
from storage import jobs
from tasks import names, steps
from tasks.attempt_flow import AttemptFlow
from tasks.attempt_task import AttemptTask
from tasks.delivery_flow import DeliveryQuestion
from tasks.runtime import Runtime

#: An admitted delivery waits so long for a worker that knows the partners.
NO_PARTNERS_DELAY_MS: Final = 60_000


class SendDelivery(AttemptTask):
    """Run one attempt of one delivery; a foreign producer sends the whole `delivery`."""

    name = names.SEND_DELIVERY
    whole_argument = "delivery"

    def read(self, value: object) -> jobs.NewJob:
        """Read a whole delivery and hold it to the limits of admission and of its partner."""
        if self.runtime.delivery is None:
            raise InvalidInputError(field="partner_id", problem="no partners are configured; set CHIO_PARTNERS_FILE")
        return self.runtime.delivery.admissible(DeliveryRequest.from_wire(value))

    def attempt(self, claim: jobs.Claim) -> steps.Step:
        """Run the delivery flow."""
        return flow_of(self.runtime).run(claim)


class WithoutPartners:
    """Stand for the delivery flow where no partners are configured: nothing is sent and no attempt is spent."""

    asks_many = None
    asks_async = None

    def run(self, claim: jobs.Claim) -> steps.Step:
        """Let the delivery wait for a worker that knows its partner."""
        return steps.Defer(attempt=claim.attempt, delay_ms=NO_PARTNERS_DELAY_MS, why="no partners configured")

    def begin_many(self, claims: Sequence[jobs.Claim]) -> list[steps.Step | DeliveryQuestion]:
        """Let the deliveries wait."""
        return [self.run(claim) for claim in claims]

    def conclude_many(self, answered: Sequence[tuple[DeliveryQuestion, object]]) -> list[steps.Step]:
        """Let the deliveries wait; nothing was asked, so nobody calls this with an answer."""
        return [self.run(question.claim) for question, _ in answered]


def flow_of(runtime: Runtime) -> AttemptFlow[DeliveryQuestion]:
    """Return the delivery flow of a process."""
    return runtime.delivery.flow if runtime.delivery else WithoutPartners()
