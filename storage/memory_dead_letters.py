"""Dead letters in memory. `InMemoryJobStorage` over the same state writes them when a job dies."""

from collections.abc import Sequence

from reliability.dead_letter import DeadLetterRecord
from storage import dead_letter_rows, limits, memory_recording
from storage.memory_state import MemoryState


class InMemoryDeadLetterStorage:
    """Keep dead letters in a state that the memory ledger may share."""

    def __init__(self, state: MemoryState | None = None) -> None:
        self._state = state or MemoryState()

    def append(self, record: DeadLetterRecord) -> bool:
        """Store the record unless the same bytes are there."""
        with self._state.lock:
            return memory_recording.store_dead_letter(self._state, record, self._state.clock.now_ms())

    def get(self, receipt_id: str) -> DeadLetterRecord | None:
        """Return the record, None if absent."""
        with self._state.lock:
            stored = self._state.dead.records.get(receipt_id)
        return None if stored is None else dead_letter_rows.decoded(receipt_id, stored)

    def list(self, limit: int | None = None, offset: int = 0) -> Sequence[DeadLetterRecord]:
        """Return records in order."""
        limits.check_page(limit, offset)
        with self._state.lock:
            dead = self._state.dead
            ranked = sorted((instant, name.encode(), name) for name, instant in dead.finalized_at.items())
            page = ranked[offset:] if limit is None else ranked[offset : offset + limit]
            rows = [dead_letter_rows.IndexedRow(name, instant, dead.records.get(name)) for instant, _, name in page]
            return dead_letter_rows.in_agreement(rows, records=len(dead.records), indexed=len(ranked))

    def count(self) -> int:
        """Count the records kept."""
        with self._state.lock:
            return len(self._state.dead.records)

    def payload(self, receipt_id: str) -> bytes | None:
        """Return the dead job's payload kept for a replay."""
        with self._state.lock:
            job = self._state.dead.jobs.get(receipt_id)
            return job.payload if job else None

    def clear(self, receipt_id: str) -> bool:
        """Remove the record, its payload and its dedup mark; a job in the ledger under the same id keeps its own."""
        with self._state.lock:
            if not self._state.dead.remove(receipt_id):
                return False
            if receipt_id not in self._state.rows:
                self._state.marks.forget(receipt_id)
            return True

    def take_unpublished(self, limit: int, retry_after_ms: int) -> Sequence[DeadLetterRecord]:
        """Take records whose feed publication is owed."""
        limits.check_limit(limit)
        limits.check_delay_ms("retry_after_ms", retry_after_ms)
        with self._state.lock:
            now_ms, dead = self._state.clock.now_ms(), self._state.dead
            owed = sorted((at_ms, name.encode(), name) for name, at_ms in dead.unpublished.items() if at_ms <= now_ms)
            taken = [name for _, _, name in owed[:limit]]
            dead.unpublished.update(dict.fromkeys(taken, now_ms + retry_after_ms))
            return dead_letter_rows.decodable([(name, dead.records.get(name)) for name in taken])

    def published(self, receipt_id: str) -> None:
        """Note that the record reached the dead-letter queue."""
        with self._state.lock:
            self._state.dead.unpublished.pop(receipt_id, None)

    def unpublished_count(self) -> int:
        """Count the records whose feed publication is owed."""
        with self._state.lock:
            return len(self._state.dead.unpublished)
