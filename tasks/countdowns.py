"""Countdowns as the broker can keep them: to the millisecond on Redis, in whole seconds on RabbitMQ."""

import math

import celery


def kept_by(app: celery.Celery, countdown_s: float) -> float:
    """Round a countdown up to whole seconds where the broker keeps it: Celery refuses to round, and fails below one."""
    return math.ceil(countdown_s) if app.conf.task_default_queue_type == "quorum" else countdown_s
