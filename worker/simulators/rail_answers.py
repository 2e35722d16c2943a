"""
How the simulated rail answers, step by step: proper answers, and each of the ways to leave a client in the dark.

Called by `rail` once the effect, if there is one, is logged.
"""

import asyncio
import gzip
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from reliability.failures import SettlementFailureCode, SettlementFailureReason, SettlementSkipReason
from reliability.outcomes import ClassifiedResult, Permanent, Retryable, Skipped
from reliability.settlement import SettlementOutcome
from worker.simulators.rail_script import Kind, Step

#: A client without a deadline is let go after this.
_LONGEST_STALL_S = 120.0
_POLL_S = 0.05
_HUGE_CHUNK = b"x" * 65_536

_OUTCOMES: dict[Kind, ClassifiedResult] = {
    Kind.OUTCOME_SKIPPED: Skipped(SettlementSkipReason.ZERO_CHARGE),
    Kind.OUTCOME_RETRYABLE: Retryable(
        SettlementFailureReason.from_detail(SettlementFailureCode.BACKEND, "the simulated rail is behind")
    ),
    Kind.OUTCOME_PERMANENT: Permanent(
        SettlementFailureReason.from_detail(SettlementFailureCode.VERIFICATION, "the simulated rail does not agree")
    ),
}


def name_of(step: Step) -> str:
    """Return the status a step answers, or the name of what it does instead."""
    match step.kind:
        case Kind.ALWAYS | Kind.FAIL:
            return str(int(step.number))
        case Kind.PENDING | Kind.PENDING_SETTLES:
            return "202"
        case Kind.CONFLICT:
            return "409"
        case Kind.RESET_AFTER_BODY | Kind.RESET_BEFORE_BODY:
            return "reset"
        case Kind.HANG | Kind.DRIP_HEADERS:
            return step.kind.value
        case _:
            return "200"


async def give(request: web.Request, step: Step, transcript_id: str) -> web.StreamResponse:
    """Do what the step says; `transcript_id` is empty where nothing was settled."""
    return await _ANSWERS[step.kind](request, step, transcript_id)


async def _ok(_: web.Request, __: Step, transcript_id: str) -> web.StreamResponse:
    return web.json_response({"transcript_id": transcript_id})


async def _conflict(_: web.Request, __: Step, transcript_id: str) -> web.StreamResponse:
    return web.json_response({"transcript_id": transcript_id}, status=409)


async def _pending(_: web.Request, __: Step, ___: str) -> web.StreamResponse:
    return web.json_response({"state": "pending"}, status=202)


async def _refuse(_: web.Request, step: Step, __: str) -> web.StreamResponse:
    headers = {"Retry-After": step.retry_after} if step.retry_after is not None else {}
    return web.json_response({"error": "scripted"}, status=int(step.number), headers=headers)


async def _slow(_: web.Request, step: Step, transcript_id: str) -> web.StreamResponse:
    await asyncio.sleep(step.number)
    return web.json_response({"transcript_id": transcript_id})


async def _outcome(_: web.Request, step: Step, __: str) -> web.StreamResponse:
    return web.Response(body=SettlementOutcome.canonical_json(_OUTCOMES[step.kind]), content_type="application/json")


async def _hang(request: web.Request, step: Step, transcript_id: str) -> web.StreamResponse:
    await _until_gone(request, _POLL_S, b"")
    return await _reset(request, step, transcript_id)


async def _drip_headers(request: web.Request, step: Step, transcript_id: str) -> web.StreamResponse:
    _write(request, b"HTTP/1.1 200 OK\r\n")
    await _until_gone(request, step.number, b"x-drip: 1\r\n")
    return await _reset(request, step, transcript_id)


async def _drip_body(request: web.Request, step: Step, transcript_id: str) -> web.StreamResponse:
    _write(request, b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
    await _until_gone(request, step.number, b" ")
    return await _reset(request, step, transcript_id)


async def _gzip_bomb(_: web.Request, step: Step, __: str) -> web.StreamResponse:
    return web.Response(body=gzip.compress(bytes(int(step.number))), headers={"Content-Encoding": "gzip"})


async def _reset(request: web.Request, _: Step, __: str) -> web.StreamResponse:
    transport = request.transport
    connection = transport.get_extra_info("socket") if transport else None
    if transport is not None and connection is not None:
        # With a linger time of zero the close is a reset, which tells the client nothing about what was received.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
    return web.Response()  # goes nowhere: the connection is closed


async def _huge(request: web.Request, step: Step, _: str) -> web.StreamResponse:
    size_bytes = int(step.number)
    response = web.StreamResponse(headers={"Content-Length": str(size_bytes)})
    await response.prepare(request)
    left_bytes = size_bytes
    while left_bytes > 0:
        chunk = _HUGE_CHUNK[:left_bytes]
        await response.write(chunk)
        left_bytes -= len(chunk)
    return response


async def _until_gone(request: web.Request, every_s: float, piece: bytes) -> None:
    """Write a piece now and then until the client has left."""
    try:
        async with asyncio.timeout(_LONGEST_STALL_S):
            while request.transport is not None and not request.transport.is_closing():
                await asyncio.sleep(every_s)
                _write(request, piece)
    except TimeoutError:
        return


def _write(request: web.Request, piece: bytes) -> None:
    if request.transport is not None and not request.transport.is_closing():
        request.transport.write(piece)


_Answer = Callable[[web.Request, Step, str], Awaitable[web.StreamResponse]]
_ANSWERS: Mapping[Kind, _Answer] = {
    Kind.OK: _ok,
    Kind.CONFLICT: _conflict,
    Kind.PENDING: _pending,
    Kind.PENDING_SETTLES: _pending,
    Kind.FAIL: _refuse,
    Kind.ALWAYS: _refuse,
    Kind.SLOW: _slow,
    Kind.RESET_AFTER_BODY: _reset,
    Kind.RESET_BEFORE_BODY: _reset,
    Kind.HANG: _hang,
    Kind.DRIP_HEADERS: _drip_headers,
    Kind.DRIP_BODY: _drip_body,
    Kind.HUGE: _huge,
    Kind.GZIP_BOMB: _gzip_bomb,
    Kind.OUTCOME_SKIPPED: _outcome,
    Kind.OUTCOME_RETRYABLE: _outcome,
    Kind.OUTCOME_PERMANENT: _outcome,
}
