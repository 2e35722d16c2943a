"""
SIGHUP reads the partner file again, in the worker's main process and then in its pool processes.

The main process reads first and tells its pool processes only of a file that holds; one that does not leaves the old
partners in force everywhere. A pool process that starts later begins with what its parent has in force.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import structlog
from celery import bootsteps

from reliability.errors import ConfigurationError
from reliability.events import Event
from tasks import partners
from tasks.emit import emit, warn
from worker import settings_checks
from worker.settings import Settings

#: How the main process tells its pool processes: billiard ends them on SIGHUP, whatever handler they had.
POOL_SIGNAL: Final = signal.SIGUSR2

_LOG: Final = structlog.stdlib.get_logger(__name__)


class ReloadOnHup(bootsteps.StartStopStep):  # type: ignore[misc]  # Celery ships no types
    """Answer SIGHUP in the worker's main process, in place of Celery's handler, which starts the worker anew."""

    requires = ("celery.worker.components:Pool",)

    def __init__(self, worker: Any, **_: Any) -> None:
        if _is_main_thread():
            # Inherited by pool processes, so that none is ended by the signal before it listens.
            signal.signal(POOL_SIGNAL, signal.SIG_IGN)
        path = worker.app.composition.settings.partners_file
        if path is not None:
            # Before the pool forks. A file that does not hold ends the worker later, in `preflight`, in its own words.
            with suppress(ConfigurationError):
                partners.shared(path)

    def start(self, worker: Any) -> None:
        """Listen; on a terminal, whose end is told by the same signal, leave the signal alone."""
        if not sys.stdout.isatty():
            _listen(signal.SIGHUP, lambda: _reload_all(worker))


def listen_in_pool(settings: Settings) -> None:
    """Read the file again when the main process says so; called as a pool process begins."""
    _listen(POOL_SIGNAL, lambda: reload(settings))


def reload(settings: Settings) -> bool:
    """Put the partners of the file in force if all of it holds and fits the settings; tell what became of it."""
    if settings.partners_file is None:
        return False
    try:
        directory = partners.shared(settings.partners_file)
        directory.reload(lambda candidate: settings_checks.partner_problems(settings, candidate))
    except ConfigurationError as error:
        sentences = [sentence.strip() for sentence in error.problem.splitlines()]
        warn(Event.PARTNERS_REFUSED, count=len(sentences))
        for sentence in sentences:
            _LOG.warning("partners.problem", sentence=sentence)
        return False
    emit(Event.PARTNERS_RELOADED, count=len(directory.partners))
    return True


def _reload_all(worker: Any) -> None:
    if not reload(worker.app.composition.settings):
        return
    for pid in worker.pool.info.get("processes", ()):
        with suppress(ProcessLookupError):
            os.kill(pid, POOL_SIGNAL)


def _listen(number: signal.Signals, reload: Callable[[], object]) -> None:
    """Call `reload` at each signal, in a thread of its own: a handler must not wait for a lock or a disk."""
    if _is_main_thread():
        signal.signal(number, lambda *_: threading.Thread(target=reload, name="reload", daemon=True).start())


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
