"""
What one job does in every other queue: drop duplicates, call a hook that does nothing, record the result.

Runs in the environments of those queues, so it imports nothing but the standard library and the Redis client. A result
is the instant at which it was recorded, so that latencies are known without another command.
"""

import functools
import os
import time
from typing import Final

import redis
import redis.asyncio

#: Names the server in the environment of workers and producers: its address without a database.
SERVER_VARIABLE: Final = "BENCHMARK_SERVER"
#: Names the task that stock Celery's producer sends.
TASK_VARIABLE: Final = "BENCHMARK_TASK"
#: Names where the receiver of webhooks listens.
RECEIVER_VARIABLE: Final = "BENCHMARK_RECEIVER"
#: Names the partner that this project's deliveries go to.
PARTNER_VARIABLE: Final = "BENCHMARK_PARTNER"
#: Tells this project's producer how many jobs to pack into a message; one each where it is not set.
BATCH_SIZE_VARIABLE: Final = "BENCHMARK_BATCH_SIZE"
#: Databases of that server: the queue itself, the dedup marks, the recorded results, and counted tries.
QUEUE_DATABASE: Final = 0
SEEN_DATABASE: Final = 1
DONE_DATABASE: Final = 2
TRIES_DATABASE: Final = 3
#: How long both are kept, as this project keeps them, in seconds.
TTL_S: Final = 172_800
#: Bytes of a webhook's body.
BODY_BYTES: Final = 1_000
#: How often a job of the retry storm fails before it succeeds.
FAILURES: Final = 2


def url(database: int = QUEUE_DATABASE) -> str:
    """Return the address of a database."""
    return f"{os.environ[SERVER_VARIABLE]}/{database}"


@functools.cache
def client(database: int) -> "redis.Redis":
    """Return this process' client of a database; a forked process makes its own connections."""
    return redis.Redis.from_url(url(database))


@functools.cache
def async_client(database: int) -> "redis.asyncio.Redis":
    """Return this process' client for an event loop."""
    return redis.asyncio.Redis.from_url(url(database))


def hook() -> None:
    """Do nothing."""


def settle_only_dedup(job_id: str) -> None:
    """Run the job, recording no result."""
    if client(SEEN_DATABASE).set(job_id, 1, nx=True, ex=TTL_S):
        hook()


def settle(job_id: str) -> None:
    """Run the job."""
    if client(SEEN_DATABASE).set(job_id, 1, nx=True, ex=TTL_S):
        hook()
        record(job_id)


async def settle_async(job_id: str) -> None:
    """Run the job on an event loop."""
    if await async_client(SEEN_DATABASE).set(job_id, 1, nx=True, ex=TTL_S):
        hook()
        await async_client(DONE_DATABASE).set(job_id, time.time_ns(), ex=TTL_S)


def record(job_id: str) -> None:
    """Record the result."""
    client(DONE_DATABASE).set(job_id, time.time_ns(), ex=TTL_S)


def fails(job_id: str) -> bool:
    """Count a try and tell whether it is one of those that fail."""
    return int(client(TRIES_DATABASE).incr(job_id)) <= FAILURES


def delivery_body(job_id: str) -> str:
    """Return a JSON body of about 1 kB."""
    filler = "x" * (BODY_BYTES - len(job_id) - len('{"id":"","filler":""}'))
    return f'{{"id":"{job_id}","filler":"{filler}"}}'
