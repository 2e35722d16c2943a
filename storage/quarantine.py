"""
Where messages that nobody can read are kept: their bytes, the queue, a reason code, bounded in number and in bytes.

The oldest goes when there is no room, and is counted. Filled by the consumer and by tasks, read by the command line.
Both back ends follow `QuarantineStorage`; this file holds the one in memory.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineEntry:
    """Describe one message without its bytes."""

    entry_id: str
    queue: str
    reason: str
    received_at_ms: int
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineCounts:
    """Count what is kept now, and what was kept and dropped ever."""

    entries: int
    size_bytes: int
    kept: int
    dropped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineBounds:
    """Bound the quarantine; the newest message is always kept, whatever its size."""

    max_entries: int = 10_000
    max_bytes: int = 67_108_864


class QuarantineStorage(Protocol):
    """Keep messages that nobody can read, the newest ones. Raises `StorageUnavailableError` as all stores do."""

    def keep(self, raw: bytes, queue: str, reason: str) -> QuarantineEntry:
        """Keep the bytes under a new id, dropping and counting the oldest entries while there is no room."""
        ...

    def get(self, entry_id: str) -> QuarantineEntry | None:
        """Return the entry, or None."""
        ...

    def raw(self, entry_id: str) -> bytes | None:
        """Return the entry's bytes as they came, or None."""
        ...

    def list(self, limit: int, offset: int = 0) -> "list[QuarantineEntry]":
        """Return up to `limit` entries, oldest first."""
        ...

    def remove(self, entry_id: str) -> bool:
        """Remove the entry; tell whether it was there."""
        ...

    def purge(self) -> int:
        """Remove every entry and return how many there were."""
        ...

    def counts(self) -> QuarantineCounts:
        """Count consistently at one instant."""
        ...


def described(entry_id: str, raw: bytes, queue: str, reason: str, received_at_ms: int) -> QuarantineEntry:
    """Describe bytes that are kept under this id."""
    return QuarantineEntry(
        entry_id=entry_id,
        queue=queue,
        reason=reason,
        received_at_ms=received_at_ms,
        size_bytes=len(raw),
        sha256=hashlib.sha256(raw).hexdigest(),
    )


class InMemoryQuarantineStorage:
    """Keep the quarantine in this process; it is forgotten when the process ends."""

    def __init__(self, bounds: QuarantineBounds, now_ms: Callable[[], int]) -> None:
        self._bounds = bounds
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[QuarantineEntry, bytes]] = OrderedDict()
        self._sequence = 0
        self._dropped = 0

    def keep(self, raw: bytes, queue: str, reason: str) -> QuarantineEntry:
        """Keep the bytes under a new id, dropping and counting the oldest entries while there is no room."""
        with self._lock:
            self._sequence += 1
            entry = described(str(self._sequence), raw, queue, reason, self._now_ms())
            self._kept[entry.entry_id] = (entry, raw)
            while len(self._kept) > 1 and not self._has_room():
                self._kept.popitem(last=False)
                self._dropped += 1
            return entry

    def get(self, entry_id: str) -> QuarantineEntry | None:
        """Return the entry, or None."""
        with self._lock:
            found = self._kept.get(entry_id)
            return found[0] if found else None

    def raw(self, entry_id: str) -> bytes | None:
        """Return the entry's bytes as they came, or None."""
        with self._lock:
            found = self._kept.get(entry_id)
            return found[1] if found else None

    def list(self, limit: int, offset: int = 0) -> "list[QuarantineEntry]":
        """Return up to `limit` entries, oldest first."""
        with self._lock:
            return [entry for entry, _ in self._kept.values()][offset : offset + limit]

    def remove(self, entry_id: str) -> bool:
        """Remove the entry; tell whether it was there."""
        with self._lock:
            return self._kept.pop(entry_id, None) is not None

    def purge(self) -> int:
        """Remove every entry and return how many there were."""
        with self._lock:
            count = len(self._kept)
            self._kept.clear()
            return count

    def counts(self) -> QuarantineCounts:
        """Count consistently at one instant."""
        with self._lock:
            return QuarantineCounts(
                entries=len(self._kept), size_bytes=self._size_bytes(), kept=self._sequence, dropped=self._dropped
            )

    def _has_room(self) -> bool:
        return len(self._kept) <= self._bounds.max_entries and self._size_bytes() <= self._bounds.max_bytes

    def _size_bytes(self) -> int:
        return sum(entry.size_bytes for entry, _ in self._kept.values())
