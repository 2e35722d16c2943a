"""
Every message this project sends: wake-ups of jobs, marks and dead letters.

The ledger owes what is sent here: a publish that fails raises `PublishError`, changes nothing and is repeated by the
due pump. Task ids are job ids, so that a repeat is visible as one and operators find a job by its receipt.
"""

from typing import Final

import celery
from kombu.entity import Queue
from kombu.exceptions import OperationalError

from reliability.dead_letter import DEAD_LETTER_SCHEMA, DeadLetterRecord
from reliability.errors import PublishError
from storage.jobs import JobKind
from tasks import names

#: What a broken broker may raise while a message is sent, across the transports.
PUBLISH_ERRORS: Final = (OperationalError, OSError)

_DEAD_LETTER_QUEUE: Final = Queue(names.DEAD_LETTER_QUEUE, durable=True)


def publish_attempt(app: celery.Celery, kind: JobKind, queue: str, job_id: str, attempt: int) -> None:
    """
    Send the message that wakes the job's attempt.

    Raises:
        PublishError: if the broker did not take it; the row stays due.

    """
    kwargs = {"job_id": job_id, "attempt": attempt}
    try:
        app.send_task(names.TASK_OF_KIND[kind], kwargs=kwargs, task_id=job_id, queue=queue)
    except publish_errors(app) as error:
        raise PublishError(what=f"the wake-up of job {job_id!r}", queue=queue) from error


def publish_mark(app: celery.Celery, queue: str, published_at_ms: int) -> None:
    """
    Send a watermark through the queue: when it is consumed, everything published before it has been.

    Raises:
        PublishError: if the broker did not take it; the next mark says the same and more.

    """
    kwargs = {"queue": queue, "published_at_ms": published_at_ms}
    try:
        app.send_task(names.MARK_QUEUE, kwargs=kwargs, queue=queue)
    except publish_errors(app) as error:
        raise PublishError(what="a watermark", queue=queue) from error


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


def publish_errors(app: celery.Celery) -> tuple[type[Exception], ...]:
    """Return what the app's transport raises when a message cannot be sent."""
    transport = app.connection_for_write().transport
    return (*PUBLISH_ERRORS, *transport.connection_errors, *transport.channel_errors)
