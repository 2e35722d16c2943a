"""
What happens to one pool process stays with it: neither a late signal nor an early death ends the worker.

Celery sends the soft time limit late when its main loop stood still, as it does while it reconnects; between two
attempts it is ignored here, or it would end an idle process, or cut what a process hands in. And Celery gives up on a
worker of which one process died before its first message; here that process is replaced like any other.
"""

import signal
from typing import Any, Final

from billiard import pool
from celery import bootsteps, signals

from worker import brief_errors

_SIGNAL: Final = pool.SIG_SOFT_TIMEOUT


class PatientStart(bootsteps.StartStopStep):  # type: ignore[misc]  # Celery ships no types
    """Let the first loop begin whatever happened to single pool processes before."""

    requires = ("celery.worker.consumer.connection:Connection",)

    def start(self, consumer: Any) -> None:
        """Take back the question that Celery asks once."""
        consumer.pool.did_start_ok = lambda: True


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
