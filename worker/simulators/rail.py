"""
A settlement rail on a local port that settles, fails, stalls and hangs up as its script says.

It is idempotent as a real one has to be: an effect is carried out once per Idempotency-Key, a repeat with the same
bytes gets the same transcript, one with other bytes gets 422. A restart on the same log remembers what was settled.
"""

import asyncio
import hashlib
import json
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from reliability.clock import Clock, SystemClock
from worker.simulators import effect_log, rail_answers
from worker.simulators.effect_log import EffectLog, LogEntry, Tally
from worker.simulators.rail_script import Kind, RailScript, Step

IDEMPOTENCY_KEY = "Idempotency-Key"
_NO_KEY = Step(kind=Kind.ALWAYS, number=400)
_OTHER_BYTES = Step(kind=Kind.ALWAYS, number=422)
#: These steps carry the effect out before they answer, or do not.
_SETTLING = frozenset(
    {
        Kind.OK,
        Kind.CONFLICT,
        Kind.PENDING_SETTLES,
        Kind.SLOW,
        Kind.RESET_AFTER_BODY,
        Kind.DRIP_HEADERS,
        Kind.DRIP_BODY,
        Kind.HUGE,
        Kind.GZIP_BOMB,
    }
)
_MAX_REQUEST_BYTES = 4_194_304
_TAKEN = "202"


@dataclass(slots=True)
class _KeyState:
    """Hold what is remembered of one key."""

    body_sha256: str
    requests: int = 0
    transcript_id: str | None = None
    #: The last request was taken for later.
    is_pending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """Hold what is done with one request, and whether that settles the key."""

    name: str
    step: Step
    settles: bool = False


class RailSimulator:
    """Answer settlement requests; all state is in memory and, line by line, in the log."""

    def __init__(self, script: RailScript, log_path: Path, clock: Clock | None = None) -> None:
        self._script = script
        self._clock = clock or SystemClock()
        self._keys: dict[str, _KeyState] = {}
        self._tally = Tally()
        self._log = EffectLog(log_path)
        for entry in effect_log.read(log_path):
            self._remember(entry)

    def app(self) -> web.Application:
        """Return the application: POST to any path settles, GET /status/<key> tells of one, GET /__stats counts."""
        app = web.Application(client_max_size=_MAX_REQUEST_BYTES)
        app.router.add_get("/__stats", self._stats)
        app.router.add_get("/status/{key}", self._status)
        app.router.add_post("/{path:.*}", self._settle)
        app.on_cleanup.append(self._close)
        return app

    async def _stats(self, request: web.Request) -> web.Response:
        del request
        return web.json_response(self._tally.to_json())

    async def _status(self, request: web.Request) -> web.Response:
        state = self._keys.get(request.match_info["key"])
        if state is None or not (state.transcript_id or state.is_pending):
            return web.json_response({"error": "no settlement under this key"}, status=404)
        if state.transcript_id is None:
            return web.json_response({"state": "pending"}, status=202)
        return web.json_response({"transcript_id": state.transcript_id})

    async def _settle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        key = request.headers.get(IDEMPOTENCY_KEY, "")
        step, entry = self._decide(key, body)
        # Logged before anything leaves, so that no answer is seen whose effect is not.
        self._log.append(entry)
        self._remember(entry)
        return await rail_answers.give(request, step, self._transcript_of(entry))

    def _decide(self, key: str, body: bytes) -> tuple[Step, LogEntry]:
        digest = hashlib.sha256(body).hexdigest()
        known = self._keys.get(key) or _KeyState(body_sha256=digest)
        plan = self._plan(key, known, digest, body)
        entry = LogEntry(
            at_ms=self._clock.now_ms(),
            key=key,
            attempt=known.requests + 1,
            body_sha256=digest,
            step=plan.name,
            answer=rail_answers.name_of(plan.step),
            effect=plan.settles,
            transcript_id=_transcript_id(key) if plan.settles else "",
        )
        return plan.step, entry

    def _plan(self, key: str, known: _KeyState, digest: str, body: bytes) -> _Plan:
        if not key:
            return _Plan(name="keyless", step=_NO_KEY)
        if known.body_sha256 != digest:
            return _Plan(name="mismatch", step=_OTHER_BYTES)
        if known.transcript_id is not None:
            return _Plan(name="repeat", step=self._script.repeat)
        step = self._script.step(key, _tool_name(body), known.requests + 1)
        return _Plan(name=str(step), step=step, settles=step.kind in _SETTLING)

    def _remember(self, entry: LogEntry) -> None:
        self._tally.add(entry)
        state = self._keys.setdefault(entry.key, _KeyState(body_sha256=entry.body_sha256))
        state.requests = entry.attempt
        state.is_pending = entry.answer == _TAKEN
        if entry.effect:
            state.transcript_id = entry.transcript_id

    def _transcript_of(self, entry: LogEntry) -> str:
        return self._keys[entry.key].transcript_id or ""

    async def _close(self, app: web.Application) -> None:
        del app
        self._log.close()


async def start(simulator: RailSimulator, host: str, port: int) -> tuple[web.AppRunner, int]:
    """Listen, and return what stops it with `cleanup` and the port, which was chosen where 0 was asked for."""
    runner = web.AppRunner(simulator.app(), access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    await web.TCPSite(runner, host, port, backlog=1024).start()
    chosen: int = runner.addresses[0][1]
    return runner, chosen


def run_rail(host: str, port: int, script_path: Path | None, log_path: Path) -> None:
    """
    Run a rail until SIGTERM or SIGINT; its address is the first line on standard output.

    Raises:
        ConfigurationError: The script cannot be used.

    """
    script = RailScript.from_file(script_path) if script_path else RailScript()
    asyncio.run(_run(RailSimulator(script, log_path), host, port))


async def _run(simulator: RailSimulator, host: str, port: int) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    runner, chosen = await start(simulator, host, port)
    try:
        sys.stdout.write(f"rail simulator listens on http://{host}:{chosen}\n")
        sys.stdout.flush()
        await stopped.wait()
    finally:
        await runner.cleanup()


def _tool_name(body: bytes) -> str:
    try:
        name = json.loads(body)["tool_name"]
    except (ValueError, KeyError, TypeError):
        return ""
    return name if isinstance(name, str) else ""


def _transcript_id(key: str) -> str:
    return f"tr-{hashlib.sha256(key.encode()).hexdigest()[:24]}"
