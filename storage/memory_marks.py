"""Keys that are remembered for a while in memory; what the TTL deduplication and the memory ledger stand on."""

from typing import Generic, TypeVar

Value = TypeVar("Value")


class ExpiringMarks(Generic[Value]):
    """
    Remember a value per key for `ttl_ms`; an older one is as good as gone. The caller guards it with a lock.

    Expired keys leave when a new one is put, oldest first, so memory holds one window and no thread is needed.
    """

    def __init__(self, ttl_ms: int) -> None:
        self._ttl_ms = ttl_ms
        # In the order of expiry: there is one ttl for all, and a key that is put again moves to the end.
        self._marks: dict[str, tuple[int, Value]] = {}

    def get(self, key: str, now_ms: int) -> Value | None:
        """Return the key's value, None when it was never put or is older than the ttl."""
        expires_at_ms, value = self._marks.get(key, (0, None))
        return None if now_ms > expires_at_ms else value

    def put(self, key: str, value: Value, now_ms: int) -> None:
        """Remember the key from now on."""
        self._forget_expired(now_ms)
        self._marks.pop(key, None)
        self._marks[key] = (now_ms + self._ttl_ms, value)

    def forget(self, key: str) -> None:
        """Make the key unseen."""
        self._marks.pop(key, None)

    def __len__(self) -> int:
        return len(self._marks)

    def _forget_expired(self, now_ms: int) -> None:
        while self._marks:
            oldest = next(iter(self._marks))
            if self._marks[oldest][0] >= now_ms:
                return
            del self._marks[oldest]
