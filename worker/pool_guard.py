"""
What happens to one pool process stays with it: neither a late signal nor an early death ends the worker.

Celery sends the soft time limit late when its main loop stood still, as it does while it reconnects; between two
attempts it is ignored here, or it would end an idle process, or cut what a process hands in. And Celery gives up on a
worker of which one process died before its first message; here that process is replaced like any other, and soon.
"""

import signal
from typing import Any, Final

from billiard import pool
from celery import bootsteps, signals

from worker import brief_errors

_SIGNAL: Final = pool.SIG_SOFT_TIMEOUT
#: How often lost pool processes are looked for, in seconds.
_LOOK_PERIOD_S: Final = 0.5


class ReplaceLost(bootsteps.StartStopStep):  # type: ignore[misc]  # Celery ships no types
    """Replace pool processes that died, whenever that was."""

    requires = ("celery.worker.consumer.connection:Connection",)

    def __init__(self, _consumer: Any, **_: Any) -> None:
        self._timer: Any = None

    def start(self, consumer: Any) -> None:
        """Begin with every new connection."""
        # Celery asks once, before its first loop, and ends the worker if one process is gone.
        consumer.pool.did_start_ok = lambda: True
        if maintain := getattr(consumer.pool, "maintain_pool", None):
            # A process is told to be gone a moment before it can be waited for; Celery would look again after 5 s.
            self._timer = consumer.timer.call_repeatedly(_LOOK_PERIOD_S, maintain)

    def stop(self, _consumer: Any) -> None:
        """End with the connection."""
        if self._timer is not None:
            self._timer.cancel()


def guard_process() -> None:
    """Begin in a new pool process."""
    brief_errors.install()
    if _SIGNAL is None:
        return
    # Receivers are called with arguments nobody here needs.
    signals.task_prerun.connect(lambda **_: _listen(), weak=False, dispatch_uid="chio:pool_guard:prerun")
    signals.task_postrun.connect(lambda **_: _ignore(), weak=False, dispatch_uid="chio:pool_guard:postrun")


def _listen() -> None:
    signal.signal(_SIGNAL, pool.soft_timeout_sighandler)


def _ignore() -> None:
    signal.signal(_SIGNAL, signal.SIG_IGN)
