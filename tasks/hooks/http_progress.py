"""
How far the exchange of the running task has got, noted by the parts of a connection as they come into play.

A context variable carries it: the connector, the TLS context and the tracing signals run in the exchange's own task or
in tasks and callbacks that inherit its context, and none of them can be handed an argument.
"""

import asyncio
import hashlib
from contextvars import ContextVar

from tasks.hooks.http_exchange import ErrorKind, HttpExchange, Phase


class Progress:
    """Gather what is known of one exchange while it runs."""

    def __init__(self, upload_complete: "asyncio.Future[None]") -> None:
        self._upload_complete = upload_complete
        self._phase = Phase.DNS
        self._status: int | None = None
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self._truncated = False

    def reach(self, phase: Phase) -> None:
        """Note where the exchange stands; a second address is tried from `CONNECT` again."""
        self._phase = phase

    def answered(self, status: int, headers: dict[str, str]) -> None:
        """Note the status and the headers that are kept."""
        self._phase = Phase.STATUS
        self._status = status
        self._headers = headers

    def keep(self, chunk: bytes, cap_bytes: int) -> bool:
        """Keep a piece of the body up to the cap; tell whether there is room for more."""
        room_bytes = cap_bytes - len(self._body)
        self._body += chunk[:room_bytes]
        self._truncated = len(chunk) > room_bytes
        return not self._truncated

    def ended(self, error: ErrorKind | None, elapsed_ms: int) -> HttpExchange:
        """Return what is known now that it is over."""
        body = bytes(self._body)
        return HttpExchange(
            phase=self._last_phase(error),
            error=error,
            status=self._status,
            headers=self._headers,
            body=body,
            body_sha256=hashlib.sha256(body).hexdigest(),
            body_truncated=self._truncated,
            elapsed_ms=elapsed_ms,
        )

    def _last_phase(self, error: ErrorKind | None) -> Phase:
        if error is ErrorKind.BLOCKED:
            return Phase.POLICY
        if self._phase is Phase.SENDING and _succeeded(self._upload_complete):
            return Phase.SENT
        return self._phase


#: The exchange that the running task is in.
current: ContextVar[Progress] = ContextVar("current")


def _succeeded(future: "asyncio.Future[None]") -> bool:
    return future.done() and not future.cancelled() and future.exception() is None
