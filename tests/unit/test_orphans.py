"""A pool process whose worker is gone ends its attempt within the lease and leaves."""

import os
import threading

from tests.support.worker_process import poll
from worker.orphans import ParentWatch

#: No process has this id: process ids end far below.
GONE = 2**30
LIMIT_S = 10.0


def watch_over(watch: ParentWatch, lease_s: float) -> threading.Thread:
    """Run the watch in a thread."""
    thread = threading.Thread(target=watch.run, args=(lease_s,), daemon=True)
    thread.start()
    return thread


def test_an_idle_orphan_leaves_at_once() -> None:
    """Without a running attempt the process leaves as soon as its parent is gone."""
    left = threading.Event()
    watch = ParentWatch(GONE, left.set)

    watch_over(watch, 1_000)

    assert left.wait(LIMIT_S)


def test_an_orphan_ends_its_attempt_first() -> None:
    """A running attempt ends, and only then the process leaves."""
    left = threading.Event()
    watch = ParentWatch(GONE, left.set)
    watch.attempt_begins()

    thread = watch_over(watch, 1_000)
    is_early = left.wait(0.05)
    watch.attempt_ended()

    poll(lambda: not thread.is_alive(), LIMIT_S, "the watch to end")
    assert not is_early
    assert left.is_set()


def test_an_orphan_leaves_when_its_lease_has_ended() -> None:
    """An attempt that outlives its lease could record nothing: the process leaves with it."""
    left = threading.Event()
    watch = ParentWatch(GONE, left.set)
    watch.attempt_begins()

    watch_over(watch, 0.05)

    assert left.wait(LIMIT_S)


def test_a_process_with_a_parent_is_no_orphan() -> None:
    """A process is an orphan when another process took its parent's place, and not before."""
    assert not ParentWatch(os.getppid(), lambda: None).is_orphan
    assert ParentWatch(GONE, lambda: None).is_orphan
