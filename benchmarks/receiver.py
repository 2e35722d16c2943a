"""A partner that takes webhooks and says 200: keeps when each came, checks nothing, and costs as little as it can."""

import asyncio
import contextlib
import re
import time
from typing import Final

from aiohttp import web

from benchmarks import producing

#: The beginning of a body, which holds its id, with when it came.
_Arrival = tuple[bytes, int]
_ARRIVALS: Final = web.AppKey("arrivals", list[_Arrival])
_ID: Final = re.compile(rb'"id":"([^"]+)"')
_HEAD_BYTES: Final = 120
_NS_PER_MS: Final = 1_000_000


async def _receive(request: web.Request) -> web.Response:
    body = await request.read()
    request.app[_ARRIVALS].append((body[:_HEAD_BYTES], time.time_ns()))
    return web.Response()


async def _count(request: web.Request) -> web.Response:
    return web.Response(text=str(len(request.app[_ARRIVALS])))


async def _latencies(request: web.Request) -> web.Response:
    return web.json_response([latency_ms(*arrival) for arrival in request.app[_ARRIVALS]])


async def _forget(request: web.Request) -> web.Response:
    request.app[_ARRIVALS].clear()
    return web.Response()


def latency_ms(head: bytes, came_at_ns: int) -> float:
    """Return how long after it was sent a body came."""
    found = _ID.search(head)
    if found is None:
        raise ValueError("expected an id at the beginning of the body, got none")
    return (came_at_ns - producing.sent_at_ns(found[1].decode())) / _NS_PER_MS


async def _serve() -> None:
    app = web.Application()
    app[_ARRIVALS] = []
    app.router.add_post("/hook", _receive)
    app.router.add_get("/count", _count)
    app.router.add_get("/latencies", _latencies)
    app.router.add_get("/forget", _forget)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(f"listens on {runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve())
