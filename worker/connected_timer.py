"""What the main loop does again and again while the worker is connected."""

from collections.abc import Callable
from typing import Any

from celery import bootsteps


class ConnectedTimer(bootsteps.StartStopStep):  # type: ignore[misc]  # Celery ships no types
    """Begin with every new connection and end with it. Subclasses say how often, in seconds, and what."""

    requires = ("celery.worker.consumer.connection:Connection",)
    period_s: float

    def __init__(self, _consumer: Any, **_: Any) -> None:
        self._timer: Any = None

    def due(self, consumer: Any) -> Callable[[], object] | None:
        """Return what is done each time; None if there is nothing to do with this consumer."""
        raise NotImplementedError

    def start(self, consumer: Any) -> None:
        """Begin."""
        if due := self.due(consumer):
            self._timer = consumer.timer.call_repeatedly(self.period_s, due)

    def stop(self, _consumer: Any) -> None:
        """End."""
        if self._timer is not None:
            self._timer.cancel()
