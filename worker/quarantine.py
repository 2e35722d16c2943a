"""
The way into the quarantine from a worker's main process, and the way back out of it to the queue.

The consumer must not wait for a store that is down, nor lose what it took off the broker: entries that cannot be stored
wait on disk, bounded, and the due pump's thread stores them when it can.
"""

import base64
import json
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

import celery

from reliability.errors import InvalidInputError, PublishError, StorageUnavailableError
from reliability.events import Event
from storage.quarantine import QuarantineEntry, QuarantineStorage
from tasks import publishing
from tasks.emit import warn
from worker.quarantine_spool import QuarantineSpool, SetAside

#: How many entries wait in memory where not even the disk takes them; the oldest is dropped with a warning.
MAX_WAITING: Final = 1_000


class QuarantineIntake:
    """Keep messages in the store, or on disk until the store is back. Safe to call from several threads."""

    def __init__(self, storage: Callable[[], QuarantineStorage], spool: QuarantineSpool) -> None:
        self._storage = storage
        self._spool = spool
        self._store_is_away = False
        #: What neither the store nor the disk took.
        self._waiting: deque[SetAside] = deque()
        self._lock = threading.Lock()

    def keep(self, raw: bytes, queue: str, reason: str) -> None:
        """Keep the message past this process' end; never raises and, while the store is down, never waits for it."""
        message = SetAside(raw=raw, queue=queue, reason=reason)
        if not self._store_is_away and self._store(message):
            return
        self._store_is_away = True
        if not self._spool.keep(message):
            self._wait(message)

    def flush(self) -> None:
        """Store what waits, oldest first; stops at the first entry the store does not take. One thread calls it."""
        if self._spool.flush(self._store) and self._flush_memory():
            self._store_is_away = False

    @property
    def waiting(self) -> int:
        """Count the entries that are only in memory."""
        return len(self._waiting)

    def _flush_memory(self) -> bool:
        while self._waiting:
            message = self._waiting[0]
            if not self._store(message):
                return False
            with self._lock:
                if self._waiting and self._waiting[0] is message:
                    self._waiting.popleft()
        return True

    def _store(self, message: SetAside) -> bool:
        try:
            entry = self._storage().keep(message.raw, message.queue, message.reason)
        except StorageUnavailableError:
            return False
        report(entry)
        return True

    def _wait(self, message: SetAside) -> None:
        with self._lock:
            self._waiting.append(message)
            dropped = self._waiting.popleft() if len(self._waiting) > MAX_WAITING else None
        if dropped:
            warn(Event.MESSAGE_QUARANTINED, queue=dropped.queue, why=f"dropped:{dropped.reason}")


class StoredQuarantine:
    """Keep messages for tasks, which can come back later: raises `StorageUnavailableError` when the store is down."""

    def __init__(self, storage: QuarantineStorage) -> None:
        self._storage = storage

    def keep(self, raw: bytes, queue: str, reason: str) -> None:
        """Store the message's bytes with the queue it came from and a reason code."""
        report(self._storage.keep(raw, queue, reason))


def report(entry: QuarantineEntry) -> None:
    """Log that a message was quarantined; its bytes stay in the store."""
    warn(
        Event.MESSAGE_QUARANTINED,
        queue=entry.queue,
        why=entry.reason,
        quarantine_id=entry.entry_id,
        sha256=entry.sha256,
    )


def requeue(app: celery.Celery, raw: bytes, queue: str) -> None:
    """
    Publish a quarantined message to its queue again, as it was.

    Raises:
        InvalidInputError: if the bytes are no message at all; export them instead.
        PublishError: if the broker did not take it; it is still in quarantine.

    """
    envelope = _envelope(raw)
    body = _body(envelope)
    try:
        with app.producer_or_acquire() as producer:
            producer.publish(
                body,
                exchange="",
                routing_key=queue,
                headers=envelope.get("headers") or {},
                content_type=envelope.get("content-type") or "application/json",
                content_encoding=envelope.get("content-encoding") or "utf-8",
                delivery_mode="persistent",
            )
    except publishing.publish_errors(app) as error:
        raise PublishError("a quarantined message", queue) from error


def _envelope(raw: bytes) -> dict[str, Any]:
    try:
        envelope = json.loads(raw)
    except ValueError as error:
        raise InvalidInputError("message", "expected a message, got other bytes: export them instead") from error
    if not isinstance(envelope, dict) or not isinstance(envelope.get("body"), str):
        raise InvalidInputError("message", "expected a message with a body, got none: export it instead")
    return envelope


def _body(envelope: Mapping[str, Any]) -> bytes:
    properties = envelope.get("properties")
    encoding = properties.get("body_encoding") if isinstance(properties, dict) else None
    body: str = envelope["body"]
    try:
        return base64.b64decode(body, validate=True) if encoding == "base64" else body.encode()
    except ValueError as error:
        raise InvalidInputError("message", "expected a base64 body, got another: export it instead") from error
