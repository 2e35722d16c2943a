"""TaskIQ: broker, task and producer. The stream broker is the one its documentation recommends: it acknowledges."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from taskiq_redis import RedisStreamBroker

from benchmarks import effects, producing

broker = RedisStreamBroker(url=effects.url())


@broker.task
async def settle(job_id: str) -> None:
    """Run one job."""
    await effects.settle_async(job_id)


async def _send_many(job_ids: Sequence[str]) -> None:
    await asyncio.gather(*(settle.kiq(job_id) for job_id in job_ids))


@asynccontextmanager
async def _opened() -> AsyncIterator[producing.SendManyAsync]:
    await broker.startup()
    try:
        yield _send_many
    finally:
        await broker.shutdown()


def produce() -> None:
    """Enqueue what the command line asks for."""
    producing.run_async(_opened)
