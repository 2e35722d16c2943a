"""A partner that takes webhooks and says 200: counts them, checks nothing, and costs as little as it can."""

import asyncio
import contextlib
from typing import Final

from aiohttp import web

_COUNT: Final = web.AppKey("count", list[int])


async def _receive(request: web.Request) -> web.Response:
    await request.read()
    request.app[_COUNT][0] += 1
    return web.Response()


async def _tell(request: web.Request) -> web.Response:
    return web.Response(text=str(request.app[_COUNT][0]))


async def _forget(request: web.Request) -> web.Response:
    request.app[_COUNT][0] = 0
    return web.Response()


async def _serve() -> None:
    app = web.Application()
    app[_COUNT] = [0]
    app.router.add_post("/hook", _receive)
    app.router.add_get("/count", _tell)
    app.router.add_get("/forget", _forget)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    print(f"listens on {port}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve())
