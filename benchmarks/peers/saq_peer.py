"""SAQ: queue, task, worker settings and producer. A hundred jobs at a time in each process, results not kept."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import saq

from benchmarks import effects, producing

queue = saq.Queue.from_url(effects.url(), name="peer")


async def settle(_context: object, *, job_id: str) -> None:
    """Run one job."""
    await effects.settle_async(job_id)


settings: dict[str, Any] = {"queue": queue, "functions": [settle], "concurrency": 100}


async def _send_many(job_ids: Sequence[str]) -> None:
    await asyncio.gather(*(queue.enqueue("settle", job_id=job_id, ttl=-1) for job_id in job_ids))


@asynccontextmanager
async def _opened() -> AsyncIterator[producing.SendManyAsync]:
    await queue.connect()
    try:
        yield _send_many
    finally:
        await queue.disconnect()


def produce() -> None:
    """Enqueue what the command line asks for."""
    producing.run_async(_opened)
