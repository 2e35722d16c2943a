"""
Celery's consumer, made safe against messages it cannot turn into a task (promise P7).

Every such message goes to quarantine with its bytes, queue and reason, is acknowledged, and the next one is read, in
the same process and over the same connection. Celery itself would log the whole message and drop it, or end the worker.
"""

import functools
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

import structlog
from celery.worker.consumer import Consumer

from reliability.clock import utc_now
from tasks import crash_points, raw_message
from tasks.crash_points import CrashPoint
from worker import broker_transport, envelope, gathering, quarantine, redaction
from worker.envelope import Defect

_LOG: Final = structlog.stdlib.get_logger(__name__)
#: Kombu counts a missing key among a broken connection's errors; a message's own missing key must not count as one.
_NOT_THE_SERVER: Final = (KeyError,)
#: Pauses between two looks for a server that is away, in seconds: a worker goes on soon after it is back.
_RECONNECTING: Final[Mapping[str, float]] = {"interval_start": 0.5, "interval_step": 0.5, "interval_max": 2.0}
#: What the names of tasks that come with Celery begin with.
_BUILT_IN: Final = "celery."


class QuarantiningConsumer(Consumer):  # type: ignore[misc]  # Celery ships no types
    """Read messages, hand sound ones to Celery and set the others aside."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        settings = self.app.composition.settings
        broker_transport.register(settings.redis_transport)
        self._gather_size: int = settings.gather_size
        self._intake: quarantine.QuarantineIntake = self.app.composition.intake
        self._limits: envelope.Limits = self.app.composition.limits
        errors = (*self.connection_errors, *self.channel_errors)
        self._server_errors = tuple(error for error in errors if error not in _NOT_THE_SERVER)

    def connect(self) -> Any:
        """Connect, and take what is no message at all from a Redis broker's lists."""
        connection = super().connect()
        if isinstance(connection.transport, broker_transport.SafeTransport):
            connection.transport.on_broken = self._set_aside_broken
            connection.transport.restores = True
        return connection

    def update_strategies(self) -> None:
        """Know this project's tasks only: Celery's own would let a message run others in its name."""
        super().update_strategies()
        for name in [name for name in self.strategies if name.startswith(_BUILT_IN)]:
            del self.strategies[name]

    def ensure_connected(self, conn: Any) -> Any:
        """Wait for the server; Celery would look again after longer and longer pauses, up to half a minute."""
        conn.ensure_connection = functools.partial(conn.ensure_connection, **_RECONNECTING)
        return super().ensure_connected(conn)

    def create_task_handler(self, *args: Any, **options: Any) -> Callable[[Any], None]:
        """Return what is called with each message."""
        handle = super().create_task_handler(*args, **options)

        def hand_on(message: Any) -> None:
            if not self.controller.drain.has_begun:
                self._handle(handle, message)

        kept = gathering.Gathering(self._gather_size, hand_on, self.call_soon)

        def on_message(message: Any) -> None:
            crash_points.reach(CrashPoint.AFTER_TAKE)
            if defect := envelope.defect_in(message, self._limits, utc_now()):
                return self._set_aside(message, defect)
            if self.gathers and self._is_gathered(message):
                return kept.keep(message)
            message.headers |= {"argsrepr": "()", "kwargsrepr": redaction.shown_arguments(message.payload[1])}
            return hand_on(message)

        return on_message

    @property
    def gathers(self) -> bool:
        """Tell whether messages are gathered: not while somebody watches each task, and not without a main loop."""
        groups = self.event_dispatcher.groups
        is_watched = self.event_dispatcher.enabled and (not groups or "task" in groups)
        return self._gather_size > 1 and self.hub is not None and not is_watched

    def _is_gathered(self, message: Any) -> bool:
        """Tell whether a message is plain, and nobody asked for anything else by remote control."""
        headers = message.headers
        return (
            gathering.is_plain(headers, message.payload[1])
            and headers["id"] not in self.controller.state.revoked
            and self.task_buckets[headers["task"]] is None
        )

    def _handle(self, handle: Callable[[Any], Any], message: Any) -> None:
        try:
            handle(message)
        except (MemoryError, *self._server_errors):
            raise
        except Exception as error:  # noqa: BLE001  # whatever a message makes Celery raise, the worker goes on
            _LOG.warning("message.refused", error=type(error).__name__)
            self._set_aside(message, Defect.INTERNAL_ERROR)

    def apply_eta_task(self, task: Any) -> None:
        """Start a task whose countdown ended; a draining worker leaves it to others, to whom its message returns."""
        if not self.controller.drain.has_begun:
            super().apply_eta_task(task)

    def on_decode_error(self, message: Any, _exc: object) -> None:
        """Set aside what cannot be decompressed or decoded."""
        self._set_aside(message, Defect.UNDECODABLE)

    def on_unknown_message(self, _body: object, message: Any) -> None:
        """Set aside what follows no version of Celery's protocol."""
        self._set_aside(message, Defect.MALFORMED_HEADERS)

    def on_unknown_task(self, _body: object, message: Any, _exc: object) -> None:
        """Set aside a task that this worker does not know: an older or newer producer's."""
        self._set_aside(message, Defect.UNKNOWN_TASK)

    def on_invalid_task(self, _body: object, message: Any, _exc: object) -> None:
        """Set aside what Celery found invalid."""
        self._set_aside(message, Defect.MALFORMED_SCHEDULE)

    def _set_aside(self, message: Any, defect: Defect) -> None:
        self._intake.keep(_bytes_of(message), _queue_of(message), defect)
        crash_points.reach(CrashPoint.QUARANTINE_AFTER_STORE)
        if not message.acknowledged:
            message.ack_log_error(logging.getLogger(__name__), self.connection_errors)

    def _set_aside_broken(self, raw: bytes, queue: str) -> None:
        self._intake.keep(raw, queue, Defect.BROKEN_ENVELOPE)


def _bytes_of(message: Any) -> bytes:
    """Return the message as it stood in the broker's list, or written out if the broker is another."""
    raw = getattr(message.channel, "raw_item", None)
    if isinstance(raw, bytes) and raw:
        return raw
    content = {"content-type": message.content_type, "content-encoding": message.content_encoding}
    return raw_message.written_out(message.body, message.headers, message.properties, content)


def _queue_of(message: Any) -> str:
    delivery: Mapping[str, object] = message.delivery_info or {}
    return str(getattr(message.channel, "raw_queue", "") or delivery.get("routing_key") or "")
