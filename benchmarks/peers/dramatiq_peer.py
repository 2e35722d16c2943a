"""Dramatiq: broker, actor and producer. Two processes of eight threads, its own result store off."""

from collections.abc import Sequence

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from benchmarks import effects, producing

dramatiq.set_broker(RedisBroker(url=effects.url()))


@dramatiq.actor(queue_name="peer")
def settle(job_id: str) -> None:
    """Run one job."""
    effects.settle(job_id)


def _send_many(job_ids: Sequence[str]) -> None:
    for job_id in job_ids:
        settle.send(job_id)


def produce() -> None:
    """Enqueue what the command line asks for."""
    producing.run(_send_many)
