"""
The Celery shell of `chio.ledger.mark`: a queue's watermark has come through the queue.

Everything published to the queue before the mark has been consumed by now, so a row that is still outstanding since
before has lost its message. The due pump publishes marks; nobody else needs to.
"""

from typing import Annotated, Final

import pydantic

from reliability.canonical import MAX_SAFE_INTEGER
from reliability.errors import InvalidInputError, InvalidMessageError, StorageUnavailableError
from tasks import crash_points, names
from tasks.base import RuntimeTask
from tasks.crash_points import CrashPoint

#: The queues a mark may name.
_QUEUES: Final = frozenset(names.JOB_QUEUES)


class MarkMessage(pydantic.BaseModel):
    """Name a queue and when the mark was published, on the store's clock."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True, frozen=True)

    queue: str
    published_at_ms: Annotated[int, pydantic.Field(ge=0, le=MAX_SAFE_INTEGER)]


class MarkQueue(RuntimeTask):
    """Note how far a queue has been consumed. Not shown by Flower: one comes every second."""

    name = names.MARK_QUEUE
    send_events = False

    def run(self, **kwargs: object) -> None:
        """Move the queue's watermark; a mark that the store does not take is made up for by the next one."""
        try:
            mark = decode_mark(kwargs)
        except InvalidInputError as error:
            return self.quarantine(kwargs, error)
        crash_points.reach(CrashPoint.MARK_BEFORE_STORE)
        try:
            self.runtime.storage.jobs.mark_consumed(mark.queue, mark.published_at_ms)
        except StorageUnavailableError:
            return None
        return None


def decode_mark(kwargs: dict[str, object]) -> MarkMessage:
    """
    Read the arguments of a mark.

    Raises:
        InvalidMessageError: if they are none, or name a queue that has no watermark.

    """
    try:
        mark = MarkMessage.model_validate(kwargs)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise InvalidMessageError(".".join(str(part) for part in first["loc"]), first["msg"]) from error
    if mark.queue not in _QUEUES:
        raise InvalidMessageError("queue", f"expected {' or '.join(sorted(_QUEUES))}, got another queue")
    return mark
