"""
The Celery base of every task: the injected runtime, retries that cannot lose a job, quarantine.

Decides nothing about when to retry: `reliability.retry` does, and a flow hands the decision over.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

import celery
from celery.exceptions import Reject, Retry

from reliability.errors import InvalidInputError, StorageUnavailableError
from reliability.events import Event
from tasks import attempt_flow, countdowns, crash_points, raw_message, shown
from tasks.crash_points import CrashPoint
from tasks.emit import warn
from tasks.runtime import Runtime

#: A message that met an unreachable store comes again after this, spending no attempt.
UNREACHABLE_RETRY_MS: Final = attempt_flow.UNREACHABLE_DELAY_MS


class RuntimeTask(celery.Task):  # type: ignore[misc]  # Celery ships no types
    """Hold the runtime. Subclasses name a task and say what its message means."""

    abstract = True
    acks_late = True
    ignore_result = True
    #: The policy counts attempts in the ledger; Celery's own limit must never cut in.
    max_retries = None

    def __init__(self, runtime: Callable[[], Runtime]) -> None:
        self._runtime = runtime

    @property
    def runtime(self) -> Runtime:
        """Return this process' runtime, built at its first use."""
        return self._runtime()

    @property
    def queue(self) -> str:
        """Return the queue that the current message came from; RabbitMQ writes a delay before its name."""
        routing_key = str((self.request.delivery_info or {}).get("routing_key", ""))
        return routing_key.rpartition(".")[2]

    def come_back(self, countdown_s: float, **kwargs: object) -> NoReturn:
        """Schedule this task again under the same task id, as a Celery retry; with new arguments if any are given."""
        arguments: dict[str, Any] = kwargs or self.request.kwargs
        raise self.retry(
            args=(),
            kwargs=arguments,
            countdown=countdowns.kept_by(self.app, countdown_s),
            # Celery would pass on the exchange alone, and RabbitMQ's delays ask for the queue.
            queue=self.queue,
            argsrepr="()",
            kwargsrepr=shown.arguments(arguments),
        )

    def retry(self, *args: Any, **options: Any) -> Any:
        """
        Publish the retry; a retry that cannot be published gives the message back to the broker instead.

        Celery would turn the failed publish into a `Reject` that drops the message (celery/app/task.py).
        """
        crash_points.reach(CrashPoint.BEFORE_RETRY_PUBLISH)
        try:
            return super().retry(*args, **options)
        except Retry:
            crash_points.reach(CrashPoint.AFTER_RETRY_PUBLISH)
            raise
        except Reject as reject:
            warn(Event.PUBLISH_FAILED, job_id=self.request.id)
            self.runtime.pause(1.0)
            raise Reject(reject.reason, requeue=True) from reject

    def quarantine(self, kwargs: Mapping[str, object], error: InvalidInputError) -> None:
        """Set a message aside that does not follow the wire contract, and end it; it comes back if that cannot be."""
        try:
            self.set_aside(kwargs, f"invalid_message:{error.field}")
        except StorageUnavailableError:
            self.come_back(UNREACHABLE_RETRY_MS / 1000)

    def set_aside(self, kwargs: Mapping[str, object], reason: str) -> None:
        """
        Keep the message of these arguments for a person to look at, to correct or to send again.

        Raises:
            StorageUnavailableError: if the store did not take it.

        """
        raw = raw_message.task_written_out(self.name, self.request.id or "", kwargs)
        self.runtime.quarantine.keep(raw, self.queue, reason)
