"""The table of reconciliation entries in memory, with an index by age for those that wait for a receipt."""

import bisect

from reliability.reconciliation import ReconciliationReason, ReconciliationRequest
from storage.instants import micros_of
from storage.memory_marks import ExpiringMarks


class EntryTable:
    """Hold the queued requests and the keys that were resolved. The caller holds the lock."""

    def __init__(self, capacity: int, resolved_ttl_ms: int) -> None:
        self.capacity = capacity
        self.queued: dict[str, ReconciliationRequest] = {}
        self._pending: list[tuple[int, bytes]] = []
        self._resolved = ExpiringMarks[bool](resolved_ttl_ms)

    def is_resolved(self, key: str, now_ms: int) -> bool:
        """Tell whether the key was resolved not too long ago."""
        return bool(self._resolved.get(key, now_ms))

    def fits(self, key: str) -> bool:
        """Tell whether the key may be queued: one that is queued already takes no place."""
        return key in self.queued or len(self.queued) < self.capacity

    def keep(self, request: ReconciliationRequest) -> None:
        """Queue the request, even if its key was resolved before; keep an entry that is there."""
        if request.idempotency_key in self.queued:
            return
        self.queued[request.idempotency_key] = request
        if request.reason is ReconciliationReason.PENDING_VERIFICATION:
            bisect.insort(self._pending, _place(request))

    def resolve(self, key: str, now_ms: int) -> bool:
        """Remove the entry and remember its key."""
        request = self.queued.pop(key, None)
        if request is None:
            return False
        if request.reason is ReconciliationReason.PENDING_VERIFICATION:
            del self._pending[bisect.bisect_left(self._pending, _place(request))]
        self._resolved.put(key, True, now_ms)
        return True

    def stale(self, created_before_us: int, limit: int) -> list[ReconciliationRequest]:
        """Return entries that wait for a receipt and were created by then, oldest first."""
        end = bisect.bisect_left(self._pending, (created_before_us + 1, b""))
        return [self.queued[key.decode()] for _, key in self._pending[: min(end, limit)]]


def _place(request: ReconciliationRequest) -> tuple[int, bytes]:
    return (micros_of(request.created_at), request.idempotency_key.encode())
