"""Deduplication in one process's memory, with and without an expiry; forgets everything on a restart."""

import threading
from datetime import timedelta

from reliability.clock import Clock, SystemClock
from reliability.errors import InvalidInputError

#: How long a key is remembered unless told otherwise.
DEFAULT_TTL = timedelta(hours=48)

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

    Expired keys go when a call comes by, oldest first; there is no thread.

    Raises:
        InvalidInputError: The ttl is under a millisecond.

    """

    def __init__(self, ttl: timedelta = DEFAULT_TTL, *, clock: Clock | None = None) -> None:
        if ttl < _MILLISECOND:
            raise InvalidInputError("ttl", f"expected a millisecond or more, got: {ttl}")
        self._lock = threading.Lock()
        self._clock = clock or SystemClock()
        self._ttl_ms = ttl // _MILLISECOND
        # Kept in the order of expiry: one ttl for all, and a key is only added when it is not there.
        self._expires_at_ms: dict[str, int] = {}

    def first_seen(self, key: str) -> bool:
        """Mark the key and tell whether this call was the first to do so within the ttl."""
        with self._lock:
            now_ms = self._clock.now_ms()
            self._forget_expired(now_ms)
            first = key not in self._expires_at_ms
            if first:
                self._expires_at_ms[key] = now_ms + self._ttl_ms
            return first

    def _forget_expired(self, now_ms: int) -> None:
        while self._expires_at_ms:
            oldest = next(iter(self._expires_at_ms))
            if self._expires_at_ms[oldest] > now_ms:
                return
            del self._expires_at_ms[oldest]
