"""
The Celery shell of `chio.reconcile.escalate`, sent by beat: everything overdue, each exactly once.

Level-triggered: a tick that was missed is made up by the next one, and any number of beats and workers may run it at
once. The store makes the escalated job due in the same step, and the due pump wakes it.
"""

from reliability.errors import StorageUnavailableError
from reliability.events import Event
from reliability.reconciliation import escalate_stale_pending_reconciliation_requests
from storage import job_ids
from tasks import crash_points, names
from tasks.base import RuntimeTask
from tasks.crash_points import CrashPoint
from tasks.emit import emit, warn


class EscalateReconciliation(RuntimeTask):
    """Escalate every pending entry that waited too long."""

    name = names.ESCALATE_RECONCILIATION

    def run(self) -> int:
        """Escalate and return how many; an unreachable store is left to the next tick."""
        try:
            escalated = escalate_stale_pending_reconciliation_requests(
                self.runtime.storage.reconciliation, self.runtime.max_pending_age
            )
        except StorageUnavailableError as error:
            warn(Event.ESCALATION_FAILED, operation=error.operation)
            return 0
        for request in escalated:
            crash_points.reach(CrashPoint.ESCALATE_AFTER_STORE)
            emit(
                Event.RECONCILIATION_ESCALATED,
                job_id=job_ids.job_of(request),
                partner_id=request.partner_id,
                key=request.idempotency_key,
            )
        return len(escalated)
