"""
The way of a stored dead letter into the feed for other systems, right after its job ended.

Whatever fails here is owed by the store, and the due pump pays it.
"""

import celery

from reliability.dead_letter import DeadLetterRecord
from reliability.errors import PublishError, StorageUnavailableError
from reliability.events import Event
from storage.protocols import DeadLetterStorage
from tasks import crash_points, publishing
from tasks.crash_points import CrashPoint
from tasks.emit import warn


def send(app: celery.Celery, dead_letters: DeadLetterStorage, record: DeadLetterRecord, max_length: int) -> None:
    """Publish the record and note that it is; leave it owed if the feed is full or a server does not answer."""
    crash_points.reach(CrashPoint.BEFORE_DEAD_LETTER_PUBLISH)
    try:
        if publishing.publish_dead_letter(app, record, max_length):
            crash_points.reach(CrashPoint.AFTER_DEAD_LETTER_PUBLISH)
            dead_letters.published(record.receipt_id)
    except (PublishError, StorageUnavailableError):
        warn(Event.PUBLISH_FAILED, job_id=record.receipt_id)
