"""Huey: queue, task and producer. Process workers, blocking reads, its own result store off."""

from collections.abc import Sequence

from huey import RedisHuey

from benchmarks import effects, producing

huey = RedisHuey("peer", url=effects.url(), results=False)


@huey.task()
def settle(job_id: str) -> None:
    """Run one job."""
    effects.settle(job_id)


def _send_many(job_ids: Sequence[str]) -> None:
    for job_id in job_ids:
        settle(job_id)


def produce() -> None:
    """Enqueue what the command line asks for."""
    producing.run(_send_many)
