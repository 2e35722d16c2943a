"""
What becomes of a message whose pool process died over it, or was killed for its time: it comes again once.

The second time it is set aside. Only messages that carry work or a receipt matter: one that wakes a job has left
nothing behind, and the ledger brings the job back. Work that was admitted before finds its job leased, and ends.
"""

from typing import Any, Final

import structlog
from billiard.einfo import ExceptionWithTraceback
from billiard.exceptions import TimeLimitExceeded, WorkerLostError
from celery.worker import state
from celery.worker.request import Request

from worker import envelope

_LOSSES: Final = (WorkerLostError, TimeLimitExceeded)
_LOG: Final = structlog.stdlib.get_logger(__name__)


class ReturningRequest(Request):  # type: ignore[misc]  # Celery ships no types
    """Give a message back to the broker when its process died for the first time."""

    def on_failure(self, exc_info: Any, *args: Any, **options: Any) -> Any:
        """Return the message if that is right; otherwise do what Celery does, which ends with `task_failure`."""
        if not self._is_first_loss(exc_info.exception):
            return super().on_failure(exc_info, *args, **options)
        _LOG.warning("task.returned", task_id=self.id)
        state.task_ready(self)
        return self.reject(requeue=True)

    def _is_first_loss(self, error: object) -> bool:
        cause = error.exc if isinstance(error, ExceptionWithTraceback) else error
        was_redelivered = bool((self.delivery_info or {}).get("redelivered"))
        return isinstance(cause, _LOSSES) and not was_redelivered and envelope.carries_work(self.kwargs)
