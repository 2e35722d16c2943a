"""arq: task, worker settings and producer. A hundred jobs at a time in each process, results not kept."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import arq
from arq.connections import RedisSettings

from benchmarks import effects, producing


async def settle(_context: object, job_id: str) -> None:
    """Run one job."""
    await effects.settle_async(job_id)


class WorkerSettings:
    """Tell arq how to work."""

    functions = (settle,)
    redis_settings = RedisSettings.from_dsn(effects.url())
    max_jobs = 100
    poll_delay = 0.01
    keep_result = 0


@asynccontextmanager
async def _opened() -> AsyncIterator[producing.SendManyAsync]:
    pool = await arq.create_pool(RedisSettings.from_dsn(effects.url()))

    async def send_many(job_ids: Sequence[str]) -> None:
        await asyncio.gather(*(pool.enqueue_job("settle", job_id) for job_id in job_ids))

    try:
        yield send_many
    finally:
        await pool.aclose()


def produce() -> None:
    """Enqueue what the command line asks for."""
    producing.run_async(_opened)
