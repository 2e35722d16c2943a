"""The quarantine in Redis: one hash per message, an index by number, counters. One Lua file per change."""

from typing import Any

import redis

from storage.keys import Key, Keys
from storage.quarantine import QuarantineBounds, QuarantineCounts, QuarantineEntry, described
from storage.scripts import Call, Script, Scripts

#: How many entries one script removes at a time.
_PURGE_BATCH = 500
_FIELDS = ("queue", "reason", "received", "size", "sha256")


class RedisQuarantineStorage:
    """Keep the quarantine in Redis, for every worker of a namespace."""

    def __init__(self, client: redis.Redis, keys: Keys, bounds: QuarantineBounds) -> None:
        self._keys = keys
        self._bounds = bounds
        self._scripts = Scripts(client, keys)

    def keep(self, raw: bytes, queue: str, reason: str) -> QuarantineEntry:
        """Keep the bytes under a new id, dropping and counting the oldest entries while there is no room."""
        entry = described("", raw, queue, reason, 0)
        arguments = (raw, queue, reason, entry.sha256, self._bounds.max_entries, self._bounds.max_bytes)
        entry_id, now_ms = self._scripts.run(Call(Script.QUARANTINE_KEEP, queue, arguments))
        return described(entry_id.decode(), raw, queue, reason, int(now_ms))

    def get(self, entry_id: str) -> QuarantineEntry | None:
        """Return the entry, or None."""
        key = self._keys.of(Key.QUARANTINE_ENTRY, entry_id)
        row = self._scripts.command("quarantine get", key, "HMGET", key, *_FIELDS)
        return None if row[0] is None else _entry([entry_id.encode(), *row])

    def raw(self, entry_id: str) -> bytes | None:
        """Return the entry's bytes as they came, or None."""
        key = self._keys.of(Key.QUARANTINE_ENTRY, entry_id)
        raw: bytes | None = self._scripts.command("quarantine raw", key, "HGET", key, "raw")
        return raw

    def list(self, limit: int, offset: int = 0) -> "list[QuarantineEntry]":
        """Return up to `limit` entries, oldest first."""
        found = self._scripts.run(Call(Script.QUARANTINE_LIST, "quarantine", (offset, offset + limit - 1)))
        return [_entry(row) for row in found]

    def remove(self, entry_id: str) -> bool:
        """Remove the entry; tell whether it was there."""
        return bool(self._scripts.run(Call(Script.QUARANTINE_REMOVE, entry_id, (entry_id,))))

    def purge(self) -> int:
        """Remove every entry and return how many there were."""
        total = 0
        while removed := int(self._scripts.run(Call(Script.QUARANTINE_PURGE, "quarantine", (_PURGE_BATCH,)))):
            total += removed
        return total

    def counts(self) -> QuarantineCounts:
        """Count consistently at one instant."""
        key, names = self._keys.of(Key.QUARANTINE_COUNTS), ("entries", "bytes", "sequence", "dropped")
        entries, size_bytes, kept, dropped = self._scripts.command("quarantine counts", key, "HMGET", key, *names)
        return QuarantineCounts(
            entries=int(entries or 0), size_bytes=int(size_bytes or 0), kept=int(kept or 0), dropped=int(dropped or 0)
        )


def _entry(row: Any) -> QuarantineEntry:
    entry_id, queue, reason, received_at_ms, size_bytes, sha256 = row
    return QuarantineEntry(
        entry_id=entry_id.decode(),
        queue=queue.decode(errors="replace"),
        reason=reason.decode(errors="replace"),
        received_at_ms=int(received_at_ms),
        size_bytes=int(size_bytes),
        sha256=sha256.decode(),
    )
