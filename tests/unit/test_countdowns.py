"""Countdowns are rounded where the broker keeps whole seconds, and never down."""

import celery
import pytest

from tasks import countdowns


@pytest.fixture
def app() -> celery.Celery:
    """Give an app on a broker in memory."""
    return celery.Celery(broker="memory://", set_as_current=False)


@pytest.mark.parametrize("countdown_s, kept_s", [(0, 0), (0.05, 1), (1, 1), (1.2, 2), (60, 60)])
def test_rabbitmq_keeps_whole_seconds(app: celery.Celery, countdown_s: float, kept_s: float) -> None:
    """On quorum queues a countdown becomes whole seconds, never fewer than were asked for."""
    app.conf.task_default_queue_type = "quorum"

    assert countdowns.kept_by(app, countdown_s) == kept_s


@pytest.mark.parametrize("countdown_s", [0, 0.05, 1.2])
def test_redis_keeps_milliseconds(app: celery.Celery, countdown_s: float) -> None:
    """On other queues a countdown stays what it is."""
    assert countdowns.kept_by(app, countdown_s) == countdown_s
