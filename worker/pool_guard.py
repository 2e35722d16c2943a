"""
What happens to one pool process stays with it: neither a late signal nor an early death ends the worker.

Celery sends the soft time limit late when its main loop stood still, as it does while it reconnects; between two
attempts it is ignored here, or it would end an idle process, or cut what a process hands in. And Celery gives up on a
worker of which one process died before its first message; here that process is replaced like any other, and soon.
"""

import signal
from collections.abc import Callable
from typing import Any, Final

from billiard import pool
from celery import signals

from worker import brief_errors
from worker.connected_timer import ConnectedTimer

_SIGNAL: Final = pool.SIG_SOFT_TIMEOUT


class ReplaceLost(ConnectedTimer):
    """Replace pool processes that died, whenever that was."""

    # A process is told to be gone a moment before it can be waited for; Celery would look again after 5 s.
    period_s = 0.5

    def due(self, consumer: Any) -> Callable[[], object] | None:
        """Have a pool of processes looked after; threads do not die."""
        # Celery asks once, before its first loop, and ends the worker if one process is gone.
        consumer.pool.did_start_ok = lambda: True
        watch_only_the_living(getattr(consumer.pool, "_pool", None))
        maintain: Callable[[], object] | None = getattr(consumer.pool, "maintain_pool", None)
        return maintain


def watch_only_the_living(pool: Any) -> None:
    """
    Pass over processes that are gone when a new connection's main loop begins to watch them.

    Celery has put away what it would watch of them, stumbles over that and ends the worker; they are replaced anyway.
    """
    track = getattr(pool, "_track_child_process", None)
    if track is None or getattr(track, "passes_over_the_gone", False):
        return

    def track_living(process: Any, hub: Any) -> None:
        if getattr(process, "_sentinel_poll", process) is not None:
            track(process, hub)

    track_living.passes_over_the_gone = True  # type: ignore[attr-defined]  # so that it is put on once
    pool._track_child_process = track_living  # noqa: SLF001  # Celery offers no other way


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
