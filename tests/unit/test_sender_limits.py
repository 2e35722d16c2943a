"""A message carries no time limits of its sender: each worker holds attempts to its own."""

from typing import Any

import celery
import pytest

from storage.jobs import JobKind
from tasks import names, publishing
from worker import schedule
from worker.settings import Settings


@pytest.fixture
def app() -> celery.Celery:
    """Give a sender's app with limits, which knows the tasks as a worker does."""
    app = celery.Celery(broker="memory://", set_as_current=False)
    app.conf.update(task_time_limit=45, task_soft_time_limit=30)
    for name in (names.OBSERVE_SETTLEMENT, names.OBSERVE_SETTLEMENTS, names.MARK_QUEUE):
        # Shared tasks would be part of every other app of the process.
        app.task(nothing, name=name, shared=False)
    app.finalize()
    return app


def nothing(**kwargs: object) -> None:
    """Stand for a task."""


def limits_of_sent(app: celery.Celery) -> list[Any]:
    """Take every message off the queue and return the limits in their headers."""
    taken = []
    with app.connection_for_read() as connection, connection.channel() as channel:
        while message := channel.basic_get("sender-limits", no_ack=True):
            taken.append(message.headers["timelimit"])
    return taken


def test_no_message_carries_limits(app: celery.Celery) -> None:
    """Wake-ups, batches and marks leave the limits to who runs them: a worker refuses limits longer than its own."""
    publishing.publish_attempt(app, JobKind.SETTLEMENT, "sender-limits", "rcpt-1", 0)
    publishing.publish_batch(app, JobKind.SETTLEMENT, "sender-limits", [("rcpt-1", 0), ("rcpt-2", 0)])
    publishing.publish_mark(app, "sender-limits", 1)

    assert limits_of_sent(app) == [[None, None]] * 3


def test_beat_sends_no_limits() -> None:
    """What beat sends leaves the limits to the worker too."""
    for entry in schedule.beat_schedule(Settings.load()).values():
        assert entry["options"].items() >= publishing.NO_LIMITS.items()
