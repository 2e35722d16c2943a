"""Deduplication in one process's memory, with and without an expiry; forgets everything on a restart."""

import threading
from datetime import timedelta

from reliability.clock import Clock, SystemClock
from reliability.errors import InvalidInputError
from storage.memory_marks import ExpiringMarks
from storage.options import DEFAULT_DEDUP_TTL

_MILLISECOND = timedelta(milliseconds=1)


class InMemoryDedupStorage:
    """Remember keys as long as the process lives."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: set[str] = set()

    def first_seen(self, key: str) -> bool:
        """Mark the key and tell whether this call was the first to do so."""
        with self._lock:
            first = key not in self._seen
            self._seen.add(key)
            return first


class TtlDedupStorage:
    """
    Remember keys for `ttl`; an older one counts as unseen.

    Expired keys leave when a new key comes by, oldest first; there is no thread.

    Raises:
        InvalidInputError: The ttl is under a millisecond.

    """

    def __init__(self, ttl: timedelta = DEFAULT_DEDUP_TTL, *, clock: Clock | None = None) -> None:
        if ttl < _MILLISECOND:
            raise InvalidInputError("ttl", f"expected a millisecond or more, got: {ttl}")
        self._lock = threading.Lock()
        self._clock = clock or SystemClock()
        self._marks = ExpiringMarks[bool](ttl // _MILLISECOND)

    def first_seen(self, key: str) -> bool:
        """Mark the key and tell whether this call was the first to do so within the ttl."""
        with self._lock:
            now_ms = self._clock.now_ms()
            if self._marks.get(key, now_ms):
                return False
            self._marks.put(key, True, now_ms)
            return True
