"""The reconciliation queue in memory, bounded. `InMemoryJobStorage` over the same state queues its entries here."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Self

from reliability.errors import CapacityReachedError
from reliability.reconciliation import ReconciliationReason, ReconciliationRequest
from storage import limits
from storage.instants import micros_of
from storage.job_ids import job_of
from storage.jobs import ClaimCause, JobState
from storage.memory_state import MemoryState
from storage.options import LedgerOptions


class InMemoryReconciliationStorage:
    """Keep the queue in a state that the memory ledger may share."""

    def __init__(self, state: MemoryState | None = None) -> None:
        self._state = state or MemoryState()

    @classmethod
    def with_capacity(cls, capacity: int) -> Self:
        """Make a queue of its own that refuses more than `capacity` entries."""
        return cls(MemoryState(options=LedgerOptions(reconciliation_capacity=capacity)))

    def enqueue(self, request: ReconciliationRequest) -> bool:
        """Queue the request; False if its key is queued or was resolved."""
        key = request.idempotency_key
        with self._state.lock:
            entries = self._state.entries
            if key in entries.queued or entries.is_resolved(key, self._state.clock.now_ms()):
                return False
            if not entries.fits(key):
                raise CapacityReachedError("the reconciliation queue", entries.capacity)
            entries.keep(request)
            return True

    def queued_requests(self) -> Sequence[ReconciliationRequest]:
        """Return every queued request, oldest first."""
        with self._state.lock:
            queued = list(self._state.entries.queued.values())
        return sorted(queued, key=lambda request: (request.created_at, request.idempotency_key))

    def oldest(self, reason: ReconciliationReason, limit: int) -> Sequence[ReconciliationRequest]:
        """Return up to `limit` requests of one reason, oldest first."""
        limits.check_limit(limit)
        return [request for request in self.queued_requests() if request.reason is reason][:limit]

    def find(self, key: str) -> ReconciliationRequest | None:
        """Return the request under this key."""
        with self._state.lock:
            return self._state.entries.queued.get(key)

    def resolve(self, key: str) -> bool:
        """Remove the entry and remember its key; a job that still waits for it becomes due as escalated."""
        with self._state.lock:
            request = self._state.entries.queued.get(key)
            if request is None:
                return False
            self._state.entries.resolve(key, self._state.clock.now_ms())
            if request.reason is ReconciliationReason.PENDING_VERIFICATION:
                self._wake_awaiting(job_of(request))
            return True

    def stale_pending(self, created_before: datetime, limit: int = 1000) -> Sequence[ReconciliationRequest]:
        """Return up to `limit` PendingVerification entries created at or before the instant, oldest first."""
        limits.check_limit(limit)
        with self._state.lock:
            return self._state.entries.stale(micros_of(created_before), limit)

    def escalate(self, key: str, replacement: ReconciliationRequest) -> bool:
        """Put the replacement in the entry's place and make its job due."""
        with self._state.lock:
            if not self._state.entries.resolve(key, self._state.clock.now_ms()):
                return False
            self._state.entries.keep(replacement)
            self._wake_awaiting(job_of(replacement))
            return True

    def counts(self) -> dict[str, int]:
        """Count the queued entries by reason tag."""
        with self._state.lock:
            tags = Counter(request.reason for request in self._state.entries.queued.values())
        return {reason.value: tags[reason] for reason in ReconciliationReason}

    def _wake_awaiting(self, job_id: str) -> None:
        row = self._state.rows.get(job_id)
        if row is not None and row.state is JobState.AWAITING:
            row.due_at_ms, row.cause = self._state.clock.now_ms(), ClaimCause.ESCALATED
            self._state.move(row, JobState.PARKED, row.due_at_ms)
