"""
How many jobs a slice of a batch holds: as many as probably end within a second, learnt from the slices before.

One for each kind and process. Threads may share it: what two of them write at once is a guess either way.
"""

from typing import Final

#: How long a slice should take, in ms: short against a lease, long against the exchanges that begin and end it.
TARGET_MS: Final = 1_000
#: Most jobs of a slice, as many as one call of the ledger handles together: more would gain nothing, and all of them
#: lose an attempt if the worker dies.
MOST: Final = 128
#: What is believed of a hook before it was called, as jobs per slice.
_FIRST: Final = 16


class Pace:
    """Learn how long jobs take; `least` is how many run at once anyway."""

    def __init__(self, least: int = 1) -> None:
        self._least = min(least, MOST)
        self._size = max(_FIRST, self._least)
        self._job_ms: float | None = None

    @property
    def size(self) -> int:
        """Return how many jobs the next slice may hold."""
        return self._size

    def within(self, time_ms: float) -> int | None:
        """Return how many jobs probably end in this time, at least a slice; None before anything is known."""
        if self._job_ms is None:
            return None
        return max(self._size, int(time_ms / self._job_ms))

    def took(self, count: int, time_ms: float) -> None:
        """Learn from a slice; the next one is at most twice as large as this one could be."""
        seen_ms = max(time_ms, 0.001) / count
        self._job_ms = seen_ms if self._job_ms is None else (self._job_ms + seen_ms) / 2
        fitting = min(int(TARGET_MS / self._job_ms), self._size * 2, MOST)
        self._size = max(fitting, self._least, 1)
