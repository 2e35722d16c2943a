"""
What a message must look like before Celery may see it: pure checks, each with a reason code.

Celery trusts its messages: a missing id is taken for a lost connection, a short body ends the worker. So everything it
would stumble over is found here, in the consumer's own process, and the message goes to quarantine instead.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, Protocol

from celery.app.task import Context
from celery.utils.time import maybe_iso8601

#: The only content type on the wire; anything else could hide an object that runs when it is read.
CONTENT_TYPE: Final = "application/json"
#: Longest task id: job ids are shorter by far.
MAX_ID_CHARACTERS: Final = 512
#: How many parts a body has: positional arguments, keyword arguments, canvas.
_BODY_PARTS: Final = 3
#: Arguments of messages that only wake a row: the ledger knows the job, so nothing is lost with the message.
_WAKE_UP_ARGUMENTS: Final = frozenset({"job_id", "attempt", "jobs", "queue", "published_at_ms"})
#: Soft and hard limit.
_TIME_LIMITS: Final = 2
#: Headers that would replace methods of Celery's request.
_RESERVED_HEADERS: Final = frozenset(
    name for name in dir(Context) if name.startswith("_") or callable(getattr(Context, name, None))
)


class Defect(StrEnum):
    """Say why a message was quarantined."""

    #: The list element of a Redis broker is no message at all.
    BROKEN_ENVELOPE = "broken_envelope"
    TOO_LARGE = "too_large"
    #: Compressed, truncated or otherwise unreadable.
    UNDECODABLE = "undecodable"
    FOREIGN_CONTENT_TYPE = "foreign_content_type"
    MISSING_ID = "missing_id"
    MALFORMED_HEADERS = "malformed_headers"
    MALFORMED_BODY = "malformed_body"
    MALFORMED_SCHEDULE = "malformed_schedule"
    #: Due so late that the broker would hand it out again, and again, before.
    SCHEDULE_TOO_FAR = "schedule_too_far"
    UNKNOWN_TASK = "unknown_task"
    #: Celery failed on it in a way nobody foresaw.
    INTERNAL_ERROR = "internal_error"
    #: The process that ran it died before the work was in the ledger, or may have.
    WORKER_LOST = "worker_lost"


class ReceivedMessage(Protocol):
    """Name what is read of a kombu message."""

    headers: object
    body: object
    content_type: object
    content_encoding: object

    @property
    def payload(self) -> object:
        """Decode the body, once; raises whatever decoding raises."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bound what a worker accepts; `max_delay_s` is None on brokers that keep delayed messages themselves."""

    max_message_bytes: int
    hard_time_limit_s: float
    max_delay_s: float | None


def defect_in(message: ReceivedMessage, limits: Limits, now: datetime) -> Defect | None:
    """Return the first reason not to hand the message to Celery, or None. Never raises."""
    try:
        return next(_defects(message, limits, now), None)
    except Exception:  # noqa: BLE001  # decoders raise anything; whatever they raise, the body cannot be read
        return Defect.UNDECODABLE


def _defects(message: ReceivedMessage, limits: Limits, now: datetime) -> Iterator[Defect]:
    if isinstance(message.body, bytes | str) and len(message.body) > limits.max_message_bytes:
        yield Defect.TOO_LARGE
    if not isinstance(message.headers, dict):
        yield Defect.MALFORMED_HEADERS
        return
    yield from _header_defects(message.headers, limits)
    yield from _schedule_defects(message.headers, limits, now)
    if message.content_type != CONTENT_TYPE:
        yield Defect.FOREIGN_CONTENT_TYPE
    yield from _body_defects(message.payload)


def _header_defects(headers: Mapping[str, object], limits: Limits) -> Iterator[Defect]:
    task_id = headers.get("id")
    if task_id is None:
        yield Defect.MISSING_ID
    if not isinstance(task_id, str) or not task_id.isprintable() or not 0 < len(task_id) <= MAX_ID_CHARACTERS:
        yield Defect.MALFORMED_HEADERS
    if not isinstance(headers.get("task"), str) or not _RESERVED_HEADERS.isdisjoint(headers):
        yield Defect.MALFORMED_HEADERS
    if not all(isinstance(headers.get(name), str | None) for name in ("root_id", "parent_id", "group", "shadow")):
        yield Defect.MALFORMED_HEADERS
    if not _is_count(headers.get("retries", 0)) or not _are_time_limits(headers.get("timelimit"), limits):
        yield Defect.MALFORMED_HEADERS
    if headers.get("stamps") or headers.get("stamped_headers"):
        yield Defect.MALFORMED_HEADERS


def _is_count(value: object) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0)


def _are_time_limits(value: object, limits: Limits) -> bool:
    """Tell whether a caller's limits are limits, and none longer than the worker's own: the lease ends with that."""
    if value is None:
        return True
    return (
        isinstance(value, list | tuple)
        and len(value) == _TIME_LIMITS
        and all(
            limit is None or (isinstance(limit, int | float) and 0 < limit <= limits.hard_time_limit_s)
            for limit in value
        )
    )


def _schedule_defects(headers: Mapping[str, object], limits: Limits, now: datetime) -> Iterator[Defect]:
    try:
        eta, _ = _instant(headers.get("eta")), _instant(headers.get("expires"))
    except (TypeError, ValueError, OverflowError):
        yield Defect.MALFORMED_SCHEDULE
        return
    if eta and limits.max_delay_s is not None and (eta - now).total_seconds() > limits.max_delay_s:
        yield Defect.SCHEDULE_TOO_FAR


def _instant(value: object) -> datetime | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError
    instant: datetime | None = maybe_iso8601(value)
    if instant is None or instant.tzinfo is None:
        return instant and instant.replace(tzinfo=UTC)
    return instant.astimezone(UTC)


def _body_defects(payload: object) -> Iterator[Defect]:
    if not isinstance(payload, list | tuple) or len(payload) != _BODY_PARTS:
        yield Defect.MALFORMED_BODY
        return
    args, kwargs, canvas = payload
    if args or not isinstance(args, list | tuple):
        # The wire contract knows keyword arguments only.
        yield Defect.MALFORMED_BODY
    if not isinstance(kwargs, dict) or not isinstance(canvas, dict | None):
        yield Defect.MALFORMED_BODY
    elif canvas and any(canvas.values()):
        # A chain or a callback would let a message run tasks of its choice.
        yield Defect.MALFORMED_BODY


def carries_work(kwargs: object) -> bool:
    """Tell whether a message is more than a wake-up: it may hold the only copy of something."""
    return isinstance(kwargs, Mapping) and not _WAKE_UP_ARGUMENTS.issuperset(kwargs)
