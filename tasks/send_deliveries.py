"""The Celery shell of `chio.deliver.send_many`: a batch of delivery attempts."""

from storage.jobs import JobKind
from tasks import names
from tasks.attempt_flow import AttemptFlow
from tasks.batch_task import BatchTask
from tasks.delivery_flow import DeliveryQuestion
from tasks.send_delivery import flow_of


class SendDeliveries(BatchTask[DeliveryQuestion]):
    """Run attempts of many deliveries."""

    name = names.SEND_DELIVERIES
    kind = JobKind.DELIVERY

    def flow(self) -> AttemptFlow[DeliveryQuestion]:
        """Return the delivery flow, or what waits for a worker that knows the partners."""
        return flow_of(self.runtime)
