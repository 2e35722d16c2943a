"""
What a pool process does when its worker is killed: it ends the attempt it runs, takes nothing more, and goes.

Celery has the kernel kill pool processes with their worker, which costs each running attempt its outcome although the
hook's effect may be done. Here an attempt has until the end of its lease, which nobody renews any more: so a job is
recovered no later than after a kill of everything, and the process never outlives its right to record.
"""

import contextlib
import ctypes
import os
import select
import threading
from collections.abc import Callable
from typing import Final

import structlog
from celery import signals

_PR_SET_PDEATHSIG: Final = 1
#: How often the parent is looked for where the kernel cannot tell of its end, in seconds.
_PERIOD_S: Final = 0.5

_LOG: Final = structlog.stdlib.get_logger(__name__)


class ParentWatch:
    """Watch over one pool process' parent; one for each process, made when the process begins."""

    def __init__(self, parent_pid: int, leave: Callable[[], object]) -> None:
        self._parent_pid = parent_pid
        self._leave = leave
        self._idle = threading.Event()
        self._idle.set()

    @property
    def is_orphan(self) -> bool:
        """Tell whether the parent is gone."""
        return os.getppid() != self._parent_pid

    def attempt_begins(self) -> None:
        """Note that a task runs."""
        self._idle.clear()

    def attempt_ended(self) -> None:
        """Note that no task runs; pool processes run one at a time."""
        self._idle.set()

    def run(self, lease_s: float) -> None:
        """Wait for the parent's end, then for the running attempt's or its lease's, and leave."""
        _wait_for_end_of(self._parent_pid, lambda: self.is_orphan)
        if not self._idle.is_set():
            _LOG.warning("worker.orphaned_attempt", worker_pid=self._parent_pid)
        self._idle.wait(lease_s)
        self._leave()


_watch: ParentWatch | None = None


def is_orphan() -> bool:
    """Tell whether this is a pool process whose worker is gone."""
    return _watch is not None and _watch.is_orphan


def watch_parent(lease_s: float) -> None:
    """Begin to watch in a new pool process."""
    global _watch  # noqa: PLW0603  # a process has one parent, and the lease keeper asks from elsewhere
    _watch = watch = ParentWatch(os.getppid(), lambda: os._exit(1))
    # Receivers are called with arguments nobody here needs.
    signals.task_prerun.connect(lambda **_: watch.attempt_begins(), weak=False, dispatch_uid="chio:orphans:prerun")
    signals.task_postrun.connect(lambda **_: watch.attempt_ended(), weak=False, dispatch_uid="chio:orphans:postrun")
    _survive_parent()
    threading.Thread(target=watch.run, args=(lease_s,), name="parent-watch", daemon=True).start()


def _survive_parent() -> None:
    """Take back that the kernel kills this process with its parent; other systems than Linux never did."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, 0)


def _wait_for_end_of(pid: int, is_gone: Callable[[], bool]) -> None:
    with contextlib.suppress(OSError, AttributeError):
        descriptor = os.pidfd_open(pid)
        try:
            # Another process may have got the number before the descriptor was open.
            if not is_gone():
                _wait_for(descriptor)
        finally:
            os.close(descriptor)
    pause = threading.Event()
    while not is_gone():
        pause.wait(_PERIOD_S)


def _wait_for(descriptor: int) -> None:
    """Wait on a process descriptor, which is readable once its process has ended."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    poll.poll()
