"""
Let pool processes share the memory they are forked with, instead of each making a copy of it.

A fork copies nothing until somebody writes. Python's garbage collector writes to every object it looks at, in the main
process and in each pool process, and so half of what was shared is copied within seconds. What is there before the
first fork, modules mostly, is therefore taken out of its sight.
"""

import gc
from typing import Any, Final

from celery import bootsteps

#: How many new objects there may be before the collector looks for garbage among them, and how many such looks there
#: are before older ones are looked at too. Nearly everything an attempt makes ends without the collector; with Python's
#: own 700 it takes a twentieth of a delivery's time.
THRESHOLDS: Final = (10_000, 20, 50)


class FreezeBeforeFork(bootsteps.Step):  # type: ignore[misc]  # Celery ships no types
    """Freeze what a worker has loaded when its parts are made: its pool forks later, when they are started."""

    def include_if(self, worker: Any) -> bool:
        """Tell whether the pool forks; with any other, the process may be a program that does more than this."""
        from celery.concurrency import prefork  # noqa: PLC0415  # heavy, and only workers need it

        return issubclass(worker.pool_cls, prefork.TaskPool)

    def create(self, _worker: Any) -> None:
        """Throw away what can be, so that no garbage is kept for ever, and freeze the rest."""
        gc.collect()
        gc.freeze()
        gc.set_threshold(*THRESHOLDS)
