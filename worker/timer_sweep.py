"""
Forget the timers of attempts that have ended: a worker's memory follows what runs, not how much ran lately.

Celery sets a timer for each attempt's time limit and cancels it at the attempt's end, but a cancelled timer stays in
the main loop's heap until it would have gone off. At a thousand attempts a second and a limit of half a minute that is
thirty thousand dead timers, and every pool process forked meanwhile starts with a copy of them.
"""

import functools
import heapq
from collections.abc import Callable
from typing import Any

from kombu.asynchronous.timer import Timer

from worker.connected_timer import ConnectedTimer


class SweepTimers(ConnectedTimer):
    """Sweep while the worker is connected: then alone do attempts begin and end."""

    # No more than the cancelled timers of one period are kept.
    period_s = 1.0

    def due(self, consumer: Any) -> Callable[[], object] | None:
        """Sweep the main loop's timer; a pool of threads has another kind, and sets none for attempts."""
        timer = consumer.timer
        return functools.partial(forget_cancelled, timer) if isinstance(timer, Timer) else None


def forget_cancelled(timer: Timer) -> None:
    """Take every cancelled entry out of the timer; called by its own loop, between two entries."""
    # In place: whoever goes through the timer holds this list.
    queue = timer._queue  # noqa: SLF001  # kombu has no other way
    queue[:] = [scheduled for scheduled in queue if not scheduled.entry.canceled]
    heapq.heapify(queue)
