"""
A bounded HTTP request for hooks: one deadline over everything, a capped response, no surprises on the way.

Redirects are not followed, cookies not kept, proxies of the environment not used, responses not decompressed. Plain
code calls `exchange`; code that runs many at once awaits `post_async` on any loop. Connections are reused per client.
"""

import asyncio
import concurrent.futures
import hashlib
import io
from dataclasses import dataclass, field
from typing import Final

import aiohttp

from tasks.hooks import http_connector, http_errors, http_loop, http_progress
from tasks.hooks.address_guard import AddressGuard
from tasks.hooks.http_connector import TlsFiles
from tasks.hooks.http_exchange import ErrorKind, HttpExchange, HttpRequest, Method, Phase, is_header_safe
from tasks.hooks.http_progress import Progress

#: Enough for an answer and its reason; peers of this project cap between 20,000 and 131,072 bytes.
DEFAULT_MAX_RESPONSE_BYTES: Final = 65_536
#: Common servers close an idle connection after 5 s; a request sent into that is lost without an answer.
DEFAULT_KEEPALIVE_S: Final = 4.0

_KEPT_HEADERS = ("content-type", "retry-after", "webhook-delivery")
_KEPT_HEADER_LENGTH = 256
_MAX_BODY_AT_ONCE_BYTES = 262_144
#: What a thread waits past the deadline before it gives up on the loop itself.
_LOOP_GRACE_S = 5.0
#: The exchange's own deadline is the only one.
_NO_LIMITS = aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)
_OWN_HEADERS = {"Accept-Encoding": "identity", "User-Agent": "chio-worker"}


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpClientOptions:
    """Hold what all requests of a client share."""

    guard: AddressGuard = field(default_factory=AddressGuard.open_to_all)
    tls: TlsFiles = field(default_factory=TlsFiles)
    max_response_bytes: int = DEFAULT_MAX_RESPONSE_BYTES
    keepalive_s: float = DEFAULT_KEEPALIVE_S
    #: `http://host:port` that every request goes through; the guard judges its address then, not the peer's.
    proxy_url: str | None = None


class HttpClient:
    """Post requests from any thread of any process; make one and keep it, it holds the connections."""

    def __init__(self, options: HttpClientOptions | None = None) -> None:
        self._options = options or HttpClientOptions()
        self._tls = http_connector.tls_context(self._options.tls)
        # By loop: a forked child must not use its parent's connections, nor let go of the objects that hold them.
        self._sessions: dict[asyncio.AbstractEventLoop, aiohttp.ClientSession] = {}

    def post(self, request: HttpRequest) -> HttpExchange:
        """Post and wait; as `exchange`."""
        return self.exchange(request)

    def exchange(self, request: HttpRequest) -> HttpExchange:
        """Send and wait for what becomes of it; raises nothing for what the peer or the network does."""
        running = self._start(request)
        try:
            return running.result(request.total_deadline_s + _LOOP_GRACE_S)
        except TimeoutError:
            running.cancel()
            # The loop did not answer, so nothing is known: the request may have been sent.
            elapsed_ms = round((request.total_deadline_s + _LOOP_GRACE_S) * 1000)
            return _unknown(elapsed_ms)
        except BaseException:
            # A time limit interrupts the wait with an exception; the request must not go on behind its back.
            running.cancel()
            raise

    async def post_async(self, request: HttpRequest) -> HttpExchange:
        """Post without blocking the caller's loop; cancelling the wait cancels the request."""
        thread = http_loop.current()
        if asyncio.get_running_loop() is thread.loop:
            return await self._exchange(request, thread)
        return await asyncio.wrap_future(self._start(request))

    def _start(self, request: HttpRequest) -> "concurrent.futures.Future[HttpExchange]":
        thread = http_loop.current()
        return asyncio.run_coroutine_threadsafe(self._exchange(request, thread), thread.loop)

    async def _exchange(self, request: HttpRequest, thread: http_loop.LoopThread) -> HttpExchange:
        upload = aiohttp.UploadTracker()
        progress = Progress(upload.upload_complete)
        http_progress.current.set(progress)
        started_at_s = thread.loop.time()
        error = await self._error_of(request, self._session(thread), upload, progress)
        return progress.ended(error, round((thread.loop.time() - started_at_s) * 1000))

    async def _error_of(
        self, request: HttpRequest, session: aiohttp.ClientSession, upload: aiohttp.UploadTracker, progress: Progress
    ) -> ErrorKind | None:
        try:
            async with (
                asyncio.timeout(request.total_deadline_s),
                session.request(
                    request.method,
                    request.url,
                    data=_payload(request.body) if request.method is Method.POST else None,
                    headers=request.headers,
                    allow_redirects=False,
                    upload_tracker=upload,
                ) as response,
            ):
                progress.answered(response.status, _kept_headers(response))
                await self._read_body(response, progress)
        except http_errors.RAISED as error:
            return http_errors.kind_of(error)
        return None

    async def _read_body(self, response: aiohttp.ClientResponse, progress: Progress) -> None:
        async for chunk in response.content.iter_any():
            if not progress.keep(chunk, self._options.max_response_bytes):
                response.close()  # never reused: the rest of the body is still on its way
                break
        progress.reach(Phase.BODY)

    def _session(self, thread: http_loop.LoopThread) -> aiohttp.ClientSession:
        session = self._sessions.get(thread.loop)
        if session is None:
            session = self._sessions[thread.loop] = self._new_session()
            thread.at_close(session.close)
        return session

    def _new_session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=http_connector.connector(self._options.guard, self._tls, self._options.keepalive_s),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=_OWN_HEADERS,
            timeout=_NO_LIMITS,
            auto_decompress=False,
            trust_env=False,
            proxy=self._options.proxy_url,
            request_class=_NotingRequest,
        )


class _NotingRequest(aiohttp.ClientRequest):
    """A request that notes when it has a connection; a signal of the library would tell it too, and slow all others."""

    async def send(self, conn: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
        http_progress.current.get().reach(Phase.SENDING)
        return await super().send(conn)


def _payload(body: bytes) -> bytes | io.BytesIO:
    # The library writes bytes in one go, which blocks the loop for a large body; from a file it takes turns.
    return body if len(body) <= _MAX_BODY_AT_ONCE_BYTES else io.BytesIO(body)


def _kept_headers(response: aiohttp.ClientResponse) -> dict[str, str]:
    found = ((name, response.headers.get(name)) for name in _KEPT_HEADERS)
    return {name: value[:_KEPT_HEADER_LENGTH] for name, value in found if value is not None and is_header_safe(value)}


def _unknown(elapsed_ms: int) -> HttpExchange:
    nothing_sha256 = hashlib.sha256().hexdigest()
    return HttpExchange(phase=Phase.SENT, error=ErrorKind.TIMEOUT, body_sha256=nothing_sha256, elapsed_ms=elapsed_ms)
