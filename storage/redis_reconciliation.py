"""The reconciliation queue on Redis, indexed by age. `RedisJobStorage` queues the entries that transitions bring."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import redis

from reliability.errors import CapacityReachedError, InvalidRecordError
from reliability.reconciliation import ReconciliationReason, ReconciliationRequest
from storage import limits
from storage.instants import micros_of
from storage.job_ids import job_of
from storage.keys import DEFAULT_NAMESPACE, Key, Keys
from storage.options import LedgerOptions
from storage.redis_transitions import RECONCILIATION_QUEUE, entry_arguments
from storage.scripts import Argument, Call, Script, Scripts

#: The id of no job.
_NOBODY = ""
_INDEXES = {
    ReconciliationReason.INDETERMINATE: Key.RECONCILE_INDETERMINATE,
    ReconciliationReason.PENDING_VERIFICATION: Key.RECONCILE_PENDING,
}


class RedisReconciliationStorage:
    """Keep the queue in one namespace of a Redis or Valkey server."""

    def __init__(
        self, client: redis.Redis, *, namespace: str = DEFAULT_NAMESPACE, options: LedgerOptions | None = None
    ) -> None:
        self._keys = Keys(namespace)
        self._scripts = Scripts(client, self._keys)
        self._options = options or LedgerOptions()

    def enqueue(self, request: ReconciliationRequest) -> bool:
        """Queue the request; False if its key is queued or was resolved."""
        capacity = self._options.reconciliation_capacity
        reply = self._run(Script.RECONCILE_ENQUEUE, request.idempotency_key, *entry_arguments(request), capacity)
        if reply == b"full":
            raise CapacityReachedError(RECONCILIATION_QUEUE, capacity)
        return bool(reply == b"new")

    def queued_requests(self) -> Sequence[ReconciliationRequest]:
        """Return every queued request, oldest first."""
        stored = self._scripts.command("queued_requests", RECONCILIATION_QUEUE, "HVALS", self._keys.of(Key.RECONCILE))
        requests = (ReconciliationRequest.from_json(entry) for entry in stored)
        return sorted(requests, key=lambda request: (request.created_at, request.idempotency_key))

    def oldest(self, reason: ReconciliationReason, limit: int) -> Sequence[ReconciliationRequest]:
        """Return up to `limit` requests of one reason, oldest first."""
        limits.check_limit(limit)
        index = self._keys.of(_INDEXES[reason])
        found = self._scripts.command("oldest", RECONCILIATION_QUEUE, "ZRANGE", index, 0, limit - 1)
        if not found:
            return []
        stored = self._scripts.command("oldest", RECONCILIATION_QUEUE, "HMGET", self._keys.of(Key.RECONCILE), *found)
        # One that was resolved between the two looks is not queued any more.
        return [ReconciliationRequest.from_json(entry) for entry in stored if entry is not None]

    def find(self, key: str) -> ReconciliationRequest | None:
        """Return the request under this key."""
        stored = self._scripts.command("find", key, "HGET", self._keys.of(Key.RECONCILE), key)
        return None if stored is None else ReconciliationRequest.from_json(stored)

    def resolve(self, key: str) -> bool:
        """Remove the entry and remember its key; a job that still waits for it becomes due as escalated."""
        stored = self._scripts.command("resolve", key, "HGET", self._keys.of(Key.RECONCILE), key)
        if stored is None:
            return False
        return bool(self._run(Script.RECONCILE_RESOLVE, key, key, self._options.resolved_ttl_s, _waiting_job(stored)))

    def stale_pending(self, created_before: datetime, limit: int = 1000) -> Sequence[ReconciliationRequest]:
        """Return up to `limit` PendingVerification entries created at or before the instant, oldest first."""
        limits.check_limit(limit)
        rows = self._run(Script.RECONCILE_STALE, RECONCILIATION_QUEUE, micros_of(created_before), limit)
        return [_decoded(key.decode(), stored) for key, stored in rows]

    def escalate(self, key: str, replacement: ReconciliationRequest) -> bool:
        """Put the replacement in the entry's place and make its job due."""
        arguments = (*entry_arguments(replacement), self._options.resolved_ttl_s, job_of(replacement))
        return bool(self._run(Script.RECONCILE_ESCALATE, key, key, *arguments))

    def counts(self) -> dict[str, int]:
        """Count the queued entries by reason tag."""
        indeterminate, pending = self._run(Script.RECONCILE_COUNTS, RECONCILIATION_QUEUE)
        return {
            ReconciliationReason.INDETERMINATE.value: indeterminate,
            ReconciliationReason.PENDING_VERIFICATION.value: pending,
        }

    def _run(self, script: Script, subject: str, *arguments: Argument) -> Any:
        return self._scripts.run(Call(script, subject, arguments))


def _waiting_job(stored: bytes) -> str:
    try:
        request = ReconciliationRequest.from_json(stored)
    except InvalidRecordError:
        # An operator has to be able to remove an entry that nobody can read.
        return _NOBODY
    return job_of(request) if request.reason is ReconciliationReason.PENDING_VERIFICATION else _NOBODY


def _decoded(key: str, stored: bytes | None) -> ReconciliationRequest:
    if stored is None:
        raise InvalidRecordError(f"reconciliation entry {key!r}", "expected a request behind the index entry, got none")
    return ReconciliationRequest.from_json(stored)
