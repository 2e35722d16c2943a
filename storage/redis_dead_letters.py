"""Dead letters on Redis. `RedisJobStorage` writes them when a job dies; operators and the feed read them here."""

from collections.abc import Sequence
from typing import Any

import redis

from reliability.dead_letter import DeadLetterRecord
from reliability.errors import DeadLetterConflictError
from storage import dead_letter_rows, limits
from storage.keys import DEFAULT_NAMESPACE, Key, Keys
from storage.options import PUBLICATION_GRACE_MS
from storage.scripts import Argument, Call, Script, Scripts

_ALL = "the dead letters"


class RedisDeadLetterStorage:
    """Keep dead letters in one namespace of a Redis or Valkey server."""

    def __init__(self, client: redis.Redis, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        self._keys = Keys(namespace)
        self._scripts = Scripts(client, self._keys)

    def append(self, record: DeadLetterRecord) -> bool:
        """Store the record unless the same bytes are there."""
        stored = (record.canonical_json(), record.finalized_at, PUBLICATION_GRACE_MS)
        reply = self._run(Script.DEAD_APPEND, record.receipt_id, record.receipt_id, *stored)
        if reply == b"conflict":
            raise DeadLetterConflictError(record.receipt_id)
        return bool(reply == b"new")

    def get(self, receipt_id: str) -> DeadLetterRecord | None:
        """Return the record, None if absent."""
        stored = self._scripts.command("get", receipt_id, "HGET", self._keys.of(Key.DEAD), receipt_id)
        return None if stored is None else dead_letter_rows.decoded(receipt_id, stored)

    def list(self, limit: int | None = None, offset: int = 0) -> Sequence[DeadLetterRecord]:
        """Return records in order."""
        limits.check_page(limit, offset)
        last = -1 if limit is None else offset + limit - 1
        records, indexed, *rows = self._run(Script.DEAD_LIST, _ALL, offset, last)
        read = (dead_letter_rows.IndexedRow(row[0].decode(), int(float(row[1])), row[2]) for row in rows)
        return dead_letter_rows.in_agreement(read, records=records, indexed=indexed)

    def count(self) -> int:
        """Count the records kept."""
        return int(self._scripts.command("count", _ALL, "HLEN", self._keys.of(Key.DEAD)))

    def payload(self, receipt_id: str) -> bytes | None:
        """Return the dead job's payload kept for a replay."""
        payload: bytes | None = self._run(Script.DEAD_PAYLOAD, receipt_id, receipt_id)
        return payload

    def clear(self, receipt_id: str) -> bool:
        """Remove the record, its payload and its dedup mark."""
        return bool(self._run(Script.DEAD_CLEAR, receipt_id, receipt_id))

    def take_unpublished(self, limit: int, retry_after_ms: int) -> Sequence[DeadLetterRecord]:
        """Take records whose feed publication is owed."""
        limits.check_limit(limit)
        limits.check_delay_ms("retry_after_ms", retry_after_ms)
        flat = self._run(Script.DEAD_TAKE, _ALL, limit, retry_after_ms)
        ids = (receipt_id.decode() for receipt_id in flat[::2])
        return dead_letter_rows.decodable(zip(ids, flat[1::2], strict=True))

    def published(self, receipt_id: str) -> None:
        """Note that the record reached the dead-letter queue."""
        self._scripts.command("published", receipt_id, "ZREM", self._keys.of(Key.DEAD_UNPUBLISHED), receipt_id)

    def unpublished_count(self) -> int:
        """Count the records whose feed publication is owed."""
        return int(self._scripts.command("unpublished_count", _ALL, "ZCARD", self._keys.of(Key.DEAD_UNPUBLISHED)))

    def _run(self, script: Script, subject: str, *arguments: Argument) -> Any:
        return self._scripts.run(Call(script, subject, arguments))
