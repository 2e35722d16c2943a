"""
How a worker ends on SIGTERM: it takes nothing more, lets running attempts end, returns the rest, and exits with 0.

Celery's own soft shutdown sleeps for its whole timeout whenever anything runs, with the main loop standing still. Here
the main loop goes on and the worker ends as soon as it can. At the timeout the hooks that still run are interrupted, as
by their soft time limit, so that their outcome is recorded; who ignores that is ended with the worker.
"""

import contextlib
import functools
import os
import signal
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol, assert_never

import structlog
from celery import bootsteps, signals

from worker.connected_timer import ConnectedTimer

#: How long an interrupted hook may take to end, in seconds.
INTERRUPTION_S: Final = 3.0

_LOG: Final = structlog.stdlib.get_logger(__name__)


class Phase(StrEnum):
    """Name what a draining worker does next."""

    WAIT = "wait"
    INTERRUPT = "interrupt"
    END = "end"
    #: End although attempts still run: their messages return and their leases expire.
    ABANDON = "abandon"


def next_phase(running: int, waited_s: float, timeout_s: float, *, interrupted: bool) -> Phase:
    """Decide what follows after draining for so long with so many attempts running."""
    if running == 0:
        return Phase.END
    if waited_s < timeout_s:
        return Phase.WAIT
    if not interrupted:
        return Phase.INTERRUPT
    return Phase.WAIT if waited_s < timeout_s + INTERRUPTION_S else Phase.ABANDON


class _Request(Protocol):
    """Name what is read of Celery's request."""

    worker_pid: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Hold what draining touches outside itself."""

    stop_consuming: Callable[[], object]
    running: Callable[[], Iterable[_Request]]
    #: End in order; Celery returns what was not started.
    end: Callable[[], object]
    abandon: Callable[[], object]


class Drain:
    """Go through the phases, one look of the main loop at a time."""

    def __init__(self, timeout_s: float, monotonic_s: Callable[[], float]) -> None:
        self._timeout_s = timeout_s
        self._monotonic_s = monotonic_s
        self._since_s: float | None = None
        self._stopped_consuming = False
        self._interrupted = False

    @property
    def has_begun(self) -> bool:
        """Tell whether the worker was told to end."""
        return self._since_s is not None

    def begin(self) -> None:
        """Start draining; called from a signal handler, so it only takes the time."""
        if self._since_s is None:
            self._since_s = self._monotonic_s()

    def look(self, around: Surroundings) -> None:
        """Do what is due now."""
        if self._since_s is None:
            return
        if not self._stopped_consuming:
            self._stopped_consuming = True
            around.stop_consuming()
        running = list(around.running())
        waited_s = self._monotonic_s() - self._since_s
        phase = next_phase(len(running), waited_s, self._timeout_s, interrupted=self._interrupted)
        match phase:
            case Phase.WAIT:
                return
            case Phase.INTERRUPT:
                self._interrupt(running)
            case Phase.END:
                around.end()
            case Phase.ABANDON:
                _LOG.warning("worker.abandoned_attempts", count=len(running))
                around.abandon()
            case _:
                assert_never(phase)

    def _interrupt(self, running: list[_Request]) -> None:
        self._interrupted = True
        _LOG.warning("worker.interrupting_attempts", count=len(running))
        for request in running:
            # Threads have no process of their own and cannot be interrupted.
            if request.worker_pid and request.worker_pid != os.getpid():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(request.worker_pid, signal.SIGUSR1)


class DrainOnTerm(bootsteps.StartStopStep):  # type: ignore[misc]  # Celery ships no types
    """Answer SIGTERM in the worker's main process, in place of Celery's handler."""

    requires = ("celery.worker.components:Pool",)

    def __init__(self, worker: Any, **_: Any) -> None:
        worker.drain = self._drain = worker.app.composition.new_drain()

    def start(self, worker: Any) -> None:
        """Install the handler; a worker in a thread of another program leaves its signals alone."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, lambda *_: self._on_term(worker))

    def _on_term(self, worker: Any) -> None:
        from celery.worker import state  # noqa: PLC0415  # heavy, and only workers need it

        is_first = not self._drain.has_begun
        self._drain.begin()
        signals.worker_shutting_down.send(sender=worker.hostname, sig="SIGTERM", how="Drain", exitcode=0)
        if not is_first or not worker.app.composition.pulse.is_consuming:
            # Told twice, or nothing is connected: end in order right away.
            state.should_stop = 0


class DrainTimer(ConnectedTimer):
    """Let the main loop look."""

    requires = ("celery.worker.consumer.tasks:Tasks",)
    period_s = 0.1

    def due(self, consumer: Any) -> Callable[[], object]:
        """Look whether the worker may end."""
        return functools.partial(consumer.controller.drain.look, _surroundings(consumer))


def _surroundings(consumer: Any) -> Surroundings:
    from celery.worker import state  # noqa: PLC0415  # as above

    def stop_consuming() -> None:
        consumer.task_consumer.cancel()
        _forget_what_waits(consumer.controller)

    def end() -> None:
        state.should_stop = 0

    def abandon() -> None:
        consumer.cancel_active_requests()
        state.should_terminate = 1

    return Surroundings(
        stop_consuming=stop_consuming,
        running=lambda: state.active_requests,
        end=end,
        abandon=abandon,
    )


def _forget_what_waits(worker: Any) -> None:
    """Begin nothing that no process or thread has begun: its messages return when the worker ends."""
    if worker.semaphore is not None:
        worker.semaphore.clear()
    executor = getattr(worker.pool, "executor", None)
    if executor is not None:
        executor.shutdown(wait=False, cancel_futures=True)
