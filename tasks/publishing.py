"""
Every message this project sends: wake-ups of one job or of a batch, marks and dead letters.

The ledger owes what is sent here: a publish that fails raises `PublishError`, changes nothing and is repeated by the
due pump. Task ids are job ids, so that a repeat is visible as one and operators find a job by its receipt.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import celery
from kombu.entity import Queue
from kombu.exceptions import OperationalError

from reliability.dead_letter import DEAD_LETTER_SCHEMA, DeadLetterRecord
from reliability.errors import PublishError
from storage.jobs import JobKind
from tasks import countdowns, names, shown
from tasks.batch_messages import JOBS, ORDERED, Wanted

#: What a broken broker may raise while a message is sent, across the transports.
PUBLISH_ERRORS: Final = (OperationalError, OSError)

#: Each worker holds attempts to limits of its own. Celery would write the sender's into the message, and a worker with
#: shorter ones would refuse it.
NO_LIMITS: Final[Mapping[str, None]] = {"time_limit": None, "soft_time_limit": None}

_DEAD_LETTER_QUEUE: Final = Queue(names.DEAD_LETTER_QUEUE, durable=True)


def publish_attempt(app: celery.Celery, kind: JobKind, queue: str, job_id: str, attempt: int) -> None:
    """
    Send the message that wakes the job's attempt.

    Raises:
        PublishError: if the broker did not take it; the row stays due.

    """
    publish_batch(app, kind, queue, [(job_id, attempt)])


def publish_batch(
    app: celery.Celery, kind: JobKind, queue: str, wanted: Sequence[Wanted], countdown_s: float = 0
) -> None:
    """
    Send the message that wakes these attempts, now or after a countdown; a single one goes as its own task.

    Raises:
        PublishError: if the broker did not take it; the rows stay due.

    """
    _publish(app, kind, queue, {JOBS: [list(pair) for pair in wanted]}, countdowns.kept_by(app, countdown_s) or None)


def publish_ordered(app: celery.Celery, kind: JobKind, queue: str, wanted: Sequence[Wanted]) -> None:
    """
    As `publish_batch`, for attempts in the order of (finalized_at, job id bytes): the worker need not look it up.

    Raises:
        PublishError: if the broker did not take it; the rows stay due.

    """
    _publish(app, kind, queue, {JOBS: [list(pair) for pair in wanted], ORDERED: True}, None)


def _publish(app: celery.Celery, kind: JobKind, queue: str, batch: dict[str, Any], countdown: float | None) -> None:
    if len(batch[JOBS]) > 1:
        what = f"the wake-ups of {len(batch[JOBS])} jobs"
        return _send(app, names.BATCH_TASK_OF_KIND[kind], queue, batch, what=what, countdown=countdown)
    ((job_id, attempt),) = batch[JOBS]
    kwargs = {"job_id": job_id, "attempt": attempt}
    what = f"the wake-up of job {job_id!r}"
    return _send(app, names.TASK_OF_KIND[kind], queue, kwargs, what=what, task_id=job_id, countdown=countdown)


def publish_mark(app: celery.Celery, queue: str, published_at_ms: int) -> None:
    """
    Send a watermark through the queue: when it is consumed, everything published before it has been.

    Raises:
        PublishError: if the broker did not take it; the next mark says the same and more.

    """
    kwargs = {"queue": queue, "published_at_ms": published_at_ms}
    _send(app, names.MARK_QUEUE, queue, kwargs, what="a watermark")


def publish_dead_letter(app: celery.Celery, record: DeadLetterRecord, max_length: int) -> bool:
    """
    Send the record's canonical bytes to the feed; False, sending nothing, when the feed holds `max_length`.

    Raises:
        PublishError: if the broker did not take it; the publication stays owed.

    """
    try:
        with app.producer_or_acquire() as producer:
            queue = _DEAD_LETTER_QUEUE.bind(producer.channel)
            if queue.queue_declare().message_count >= max_length:
                return False
            producer.publish(
                record.canonical_json(),
                routing_key=names.DEAD_LETTER_QUEUE,
                exchange="",
                content_type="application/json",
                content_encoding="utf-8",
                headers={names.SCHEMA_HEADER: DEAD_LETTER_SCHEMA},
                delivery_mode="persistent",
            )
    except publish_errors(app) as error:
        raise PublishError(what=f"the dead letter of {record.receipt_id!r}", queue=names.DEAD_LETTER_QUEUE) from error
    return True


def _send(
    app: celery.Celery, task: str, queue: str, kwargs: dict[str, Any], *, what: str, **options: str | float | None
) -> None:
    # Celery would write the arguments out as text for monitors; ours show no more than this of them.
    text = shown.arguments(kwargs)
    try:
        app.send_task(task, kwargs=kwargs, queue=queue, argsrepr="()", kwargsrepr=text, **NO_LIMITS, **options)
    except publish_errors(app) as error:
        raise PublishError(what=what, queue=queue) from error


def publish_errors(app: celery.Celery) -> tuple[type[Exception], ...]:
    """Return what the app's transport raises when a message cannot be sent."""
    transport = app.connection_for_write().transport
    return (*PUBLISH_ERRORS, *transport.connection_errors, *transport.channel_errors)
