"""
One event loop per process, in a thread of its own, for the HTTP connections of all hooks.

It starts with the first request, so never before a prefork parent forks. A child that inherits one all the same
leaves it alone and starts its own: the parent's sockets and its selector are not the child's to touch.
"""

import asyncio
import atexit
import os
import selectors
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

#: Name look-ups block a thread each; a partner whose name server hangs must not keep the others waiting.
_RESOLVER_THREADS = 32
_SHUT_DOWN_LIMIT_S = 2.0

Closer = Callable[[], Awaitable[None]]


class LoopThread:
    """Run an event loop until the process ends."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._closers: list[Closer] = []
        self.loop = asyncio.SelectorEventLoop(self._selector)
        self.loop.set_default_executor(ThreadPoolExecutor(_RESOLVER_THREADS, thread_name_prefix="chio-http-dns"))
        self._thread = threading.Thread(target=self.loop.run_forever, name="chio-http", daemon=True)
        self._thread.start()

    def at_close(self, closer: Closer) -> None:
        """Have `closer` awaited on the loop before it ends."""
        self._closers.append(closer)

    def close(self) -> None:
        """Close what was opened on the loop, then end it; does not wait longer than a bound."""
        asyncio.run_coroutine_threadsafe(self._close_all(), self.loop)
        self._thread.join(_SHUT_DOWN_LIMIT_S)
        if not self._thread.is_alive():
            self.loop.close()

    def abandon(self) -> None:
        """Let go of a loop inherited through a fork: its selector is shared with the parent until it is closed here."""
        self._selector.close()

    async def _close_all(self) -> None:
        running = asyncio.all_tasks() - {asyncio.current_task()}
        for task in running:
            task.cancel()
        await asyncio.gather(*running, *(closer() for closer in self._closers), return_exceptions=True)
        self.loop.stop()


class _Process:
    """Hold this process' loop, and those of its parents, which must stay referenced so that nothing finalises them."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.running: LoopThread | None = None
        self.inherited: list[LoopThread] = []


_process = _Process()


def current() -> LoopThread:
    """Return this process' loop, starting it if need be."""
    with _process.lock:
        if _process.running is None:
            _process.running = LoopThread()
        return _process.running


def shut_down() -> None:
    """Close all connections and end the loop; the next request starts a new one."""
    with _process.lock:
        running, _process.running = _process.running, None
    if running is not None:
        running.close()


def _after_fork_in_child() -> None:
    # The lock may have been held by a thread that does not exist here.
    _process.lock = threading.Lock()
    if _process.running is not None:
        _process.running.abandon()
        _process.inherited.append(_process.running)
        _process.running = None


os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(shut_down)
