"""The Celery shell of `chio.settle.observe_many`: a batch of settlement attempts."""

from storage.jobs import JobKind
from tasks import names
from tasks.attempt_flow import AttemptFlow
from tasks.batch_task import BatchTask
from tasks.settlement_flow import SettlementQuestion


class ObserveSettlements(BatchTask[SettlementQuestion]):
    """Run attempts of many settlements."""

    name = names.OBSERVE_SETTLEMENTS
    kind = JobKind.SETTLEMENT

    def flow(self) -> AttemptFlow[SettlementQuestion]:
        """Return the settlement flow."""
        return self.runtime.settlement
