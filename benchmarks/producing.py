"""
The command line of every producer: enqueue so many jobs as fast as possible or at a rate, and say how long it took.

Runs in the environments of other queues: standard library only. What stands before the clock starts, such as making
ids, is not measured; connecting is done by sending one job before.
"""

import argparse
import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeVar

#: Between the number of a job and the instant it was sent at, in nanoseconds.
SEPARATOR: Final = "-"
_CHUNK: Final = 500

SendMany = Callable[[Sequence[str]], object]
#: What a producer has at hand of a job before it enqueues it.
Item = TypeVar("Item")
SendManyAsync = Callable[[Sequence[str]], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Hold what to enqueue; `rate_per_s` 0 is as fast as possible."""

    count: int
    rate_per_s: float


def job_id(number: int, sent_at_ns: int) -> str:
    """Return an id that tells when its job was sent."""
    return f"rcpt{SEPARATOR}{number:08d}{SEPARATOR}{sent_at_ns}"


def sent_at_ns(identifier: str) -> int:
    """Return when the job with this id was sent."""
    return int(identifier.rpartition(SEPARATOR)[2])


def run(send_many: SendMany) -> None:
    """Carry out the order on the command line and print what it took."""
    run_made(send_many, str)


def run_made(send_many: Callable[[Sequence[Item]], object], made_of: Callable[[str], Item]) -> None:
    """As `run`, with what is made of each id, such as a line of a file; making it is not measured."""
    order = _order()
    send_many([made_of(job_id(0, time.time_ns()))])
    if order.rate_per_s:
        began_s = time.monotonic()
        for number, wait_s in paced(order, time.monotonic):
            time.sleep(wait_s)
            send_many([made_of(job_id(number, time.time_ns()))])
        return _tell(order.count, time.monotonic() - began_s)
    ready = [[made_of(each) for each in chunk] for chunk in _chunks(order.count)]
    began_s = time.monotonic()
    for chunk in ready:
        send_many(chunk)
    return _tell(order.count, time.monotonic() - began_s)


def run_async(opened: Callable[[], AbstractAsyncContextManager[SendManyAsync]]) -> None:
    """Carry out the order on an event loop."""
    asyncio.run(_run_async(opened, _order()))


async def _run_async(opened: Callable[[], AbstractAsyncContextManager[SendManyAsync]], order: Order) -> None:
    async with opened() as send_many:
        await send_many([job_id(0, time.time_ns())])
        if order.rate_per_s:
            began_s = time.monotonic()
            async for number in _paced_async(order):
                await send_many([job_id(number, time.time_ns())])
            return _tell(order.count, time.monotonic() - began_s)
        ready = [list(chunk) for chunk in _chunks(order.count)]
        began_s = time.monotonic()
        for chunk in ready:
            await send_many(chunk)
        return _tell(order.count, time.monotonic() - began_s)


async def _paced_async(order: Order) -> AsyncIterator[int]:
    for number, wait_s in paced(order, time.monotonic):
        await asyncio.sleep(wait_s)
        yield number


def paced(order: Order, monotonic_s: Callable[[], float]) -> Iterator[tuple[int, float]]:
    """Yield each job's number with how long to wait before it; a late one waits not at all, and none is left out."""
    began_s = monotonic_s()
    for number in range(1, order.count + 1):
        due_s = began_s + number / order.rate_per_s
        yield number, max(0.0, due_s - monotonic_s())


def _chunks(count: int) -> Iterator[list[str]]:
    now_ns = time.time_ns()
    ids = (job_id(number, now_ns) for number in range(1, count + 1))
    while chunk := list(islice(ids, _CHUNK)):
        yield chunk


def _order() -> Order:
    parser = argparse.ArgumentParser(description="Enqueue jobs and print as JSON how many and how long it took.")
    parser.add_argument("count", type=int)
    parser.add_argument("--rate", type=float, default=0.0, help="jobs a second; 0 is as fast as possible")
    given = parser.parse_args()
    return Order(count=given.count, rate_per_s=given.rate)


def _tell(count: int, elapsed_s: float) -> None:
    print(json.dumps({"count": count, "elapsed_s": elapsed_s}))
