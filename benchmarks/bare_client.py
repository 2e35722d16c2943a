"""The bare asynchronous client: posts the same bodies without queue, ledger or signature, to know what is possible."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import aiohttp

from benchmarks import effects, producing

#: Posts under way at a time.
_AT_A_TIME: Final = 50


@asynccontextmanager
async def _opened() -> AsyncIterator[producing.SendManyAsync]:
    url, slots = os.environ[effects.RECEIVER_VARIABLE], asyncio.Semaphore(_AT_A_TIME)
    headers = {"content-type": "application/json"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=_AT_A_TIME)) as session:

        async def post(job_id: str) -> None:
            async with slots, session.post(url, data=effects.delivery_body(job_id), headers=headers) as answer:
                await answer.read()

        async def send_many(job_ids: Sequence[str]) -> None:
            await asyncio.gather(*(post(job_id) for job_id in job_ids))

        yield send_many


if __name__ == "__main__":
    producing.run_async(_opened)
