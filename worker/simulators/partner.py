"""
A webhook partner on a local port that takes, refuses, stalls and hangs up as its script says.

It acts as a receiver has to: the signature is checked by the library, a message takes effect once, a repeat with the
same bytes is answered again, one with other bytes gets 422. A restart on the same log remembers what was taken.
"""

import asyncio
import hashlib
import os
import signal
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from aiohttp import web

from reliability.clock import Clock, SystemClock
from reliability.delivery_request import delivery_job_id
from reliability.errors import ConfigurationError
from reliability.receipt import Verdict
from tasks.partner_secrets import SigningSecret, Sources
from worker.simulators import partner_answers, partner_log, partner_receipts, partner_signature
from worker.simulators.effect_log import EffectLog, Tally
from worker.simulators.partner_log import PartnerLogEntry, Signature
from worker.simulators.partner_receipts import ReceiptSender
from worker.simulators.partner_script import PartnerScript
from worker.simulators.partner_steps import OK, PENDING, Kind, Step

_ID_HEADER = "webhook-id"
_REFUSED = Step(kind=Kind.STATUS, number=401)
_OTHER_BYTES = Step(kind=Kind.STATUS, number=422)
_NO_STEP = Step(kind=Kind.STATUS, number=404)
_MAX_REQUEST_BYTES = 67_108_864
_MS_PER_S = 1000


@dataclass(slots=True)
class _Known:
    """Hold what is remembered of one message."""

    requests: int = 0
    body_sha256: str = ""
    taken: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Arrived:
    """Hold one request; the body is empty where it is not to be read."""

    partner_id: str
    message_id: str
    key: str
    body_sha256: str
    signature: Signature


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """Hold what is done with one request, and whether the message takes effect by it."""

    name: str
    step: Step
    takes: bool = False


class PartnerSimulator:
    """Answer deliveries; all state is in memory and, line by line, in the log."""

    def __init__(self, script: PartnerScript, log_path: Path, sources: Sources, clock: Clock | None = None) -> None:
        self._script = script
        self._clock = clock or SystemClock()
        self._started_at_ms = self._clock.now_ms()
        self._secrets = {name: _resolved(references, sources) for name, references in script.secrets.items()}
        self._receipts = ReceiptSender(target=script.receipts)
        self._known: dict[str, _Known] = {}
        self._tally = Tally()
        self._log = EffectLog(log_path)
        for entry in partner_log.read(log_path):
            self._remember(entry)

    def app(self) -> web.Application:
        """Return the application: POST /p/<partner>/<step>/... delivers, GET /__stats counts."""
        app = web.Application(client_max_size=_MAX_REQUEST_BYTES)
        app.router.add_get("/__stats", self._stats)
        app.router.add_post("/p/{partner_id}{steps:(/.*)?}", self._deliver)
        app.on_cleanup.append(self._close)
        return app

    async def _stats(self, request: web.Request) -> web.Response:
        del request
        return web.json_response(self._tally.to_json())

    async def _deliver(self, request: web.Request) -> web.StreamResponse:
        step = self._scripted(request)
        hangs_up = step.kind is Kind.RESET_BEFORE_BODY or step.is_down(self._age_s())
        body = b"" if hangs_up else await request.read()
        arrived = self._arrived(request, body, is_read=not hangs_up)
        plan = _Plan(name=str(step), step=step) if hangs_up else self._plan(arrived, step)
        # Logged before anything leaves, so that no answer is seen whose effect is not.
        self._note(arrived, plan, hangs_up=hangs_up)
        self._promise_receipt(arrived, plan)
        return await (
            partner_answers.hang_up(request) if hangs_up else partner_answers.give(request, plan.step, self._now())
        )

    def _scripted(self, request: web.Request) -> Step:
        partner_id, message_id = request.match_info["partner_id"], request.headers.get(_ID_HEADER, "")
        in_path = [text for text in request.match_info["steps"].split("/") if text]
        try:
            steps = self._script.steps(partner_id, message_id, in_path)
        except ConfigurationError:
            return _NO_STEP
        requests = self._known.get(delivery_job_id(partner_id, message_id), _Known()).requests
        return steps[min(requests, len(steps) - 1)]

    def _arrived(self, request: web.Request, body: bytes, *, is_read: bool) -> _Arrived:
        partner_id, message_id = request.match_info["partner_id"], request.headers.get(_ID_HEADER, "")
        headers = {name.lower(): value for name, value in request.headers.items()}
        secrets = self._secrets.get(partner_id, ()) if is_read else ()
        return _Arrived(
            partner_id=partner_id,
            message_id=message_id,
            key=delivery_job_id(partner_id, message_id),
            body_sha256=hashlib.sha256(body).hexdigest() if is_read else "",
            signature=partner_signature.check(secrets, headers, body),
        )

    def _plan(self, arrived: _Arrived, step: Step) -> _Plan:
        known = self._known.get(arrived.key, _Known())
        if arrived.signature is Signature.INVALID or not arrived.message_id:
            return _Plan(name="unsigned", step=_REFUSED)
        if known.body_sha256 not in {"", arrived.body_sha256}:
            return _Plan(name="mismatch", step=_OTHER_BYTES)
        if known.taken:
            return _Plan(name="repeat", step=step if step.kind in PENDING else OK)
        return _Plan(name=str(step), step=step, takes=step.takes(self._age_s()))

    def _note(self, arrived: _Arrived, plan: _Plan, *, hangs_up: bool) -> None:
        entry = PartnerLogEntry(
            at_ms=self._clock.now_ms(),
            key=arrived.key,
            attempt=self._known.get(arrived.key, _Known()).requests + 1,
            body_sha256=arrived.body_sha256,
            step=plan.name,
            answer=partner_answers.HUNG_UP if hangs_up else partner_answers.name_of(plan.step),
            effect=plan.takes,
            partner_id=arrived.partner_id,
            message_id=arrived.message_id,
            signature=arrived.signature,
        )
        self._log.append(entry)
        self._remember(entry)

    def _remember(self, entry: PartnerLogEntry) -> None:
        known = self._known.setdefault(entry.key, _Known())
        known.requests = entry.attempt
        known.taken = known.taken or entry.effect
        if entry.body_sha256:
            self._tally.add(entry)
            known.body_sha256 = known.body_sha256 or entry.body_sha256

    def _promise_receipt(self, arrived: _Arrived, plan: _Plan) -> None:
        if plan.step.kind not in {Kind.CONFIRM_LATE, Kind.DENY_LATE}:
            return
        verdict = Verdict.CONFIRMED if plan.step.kind is Kind.CONFIRM_LATE else Verdict.FAILED
        secret = next(iter(self._secrets.get(arrived.partner_id, ())), "")
        receipt = partner_receipts.signed_receipt(verdict, arrived.partner_id, arrived.message_id, secret, self._now())
        self._receipts.send_later(receipt, plan.step.number)

    def _age_s(self) -> float:
        return (self._clock.now_ms() - self._started_at_ms) / _MS_PER_S

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.now_ms() / _MS_PER_S, UTC)

    async def _close(self, app: web.Application) -> None:
        del app
        await self._receipts.close()
        self._log.close()


async def start(simulator: PartnerSimulator, host: str, port: int) -> tuple[web.AppRunner, int]:
    """Listen, and return what stops it with `cleanup` and the port, which was chosen where 0 was asked for."""
    runner = web.AppRunner(simulator.app(), access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    await web.TCPSite(runner, host, port, backlog=1024).start()
    chosen: int = runner.addresses[0][1]
    return runner, chosen


def run_partner(host: str, port: int, script_path: Path | None, log_path: Path) -> None:
    """
    Run a partner until SIGTERM or SIGINT; its address is the first line on standard output.

    Raises:
        ConfigurationError: The script cannot be used.

    """
    script = PartnerScript.from_file(script_path) if script_path else PartnerScript()
    folder = script_path.parent if script_path else Path()
    sources = Sources(environ=os.environ, folder=folder)
    asyncio.run(_run(PartnerSimulator(script, log_path, sources), host, port))


async def _run(simulator: PartnerSimulator, host: str, port: int) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    runner, chosen = await start(simulator, host, port)
    try:
        sys.stdout.write(f"partner simulator listens on http://{host}:{chosen}\n")
        sys.stdout.flush()
        await stopped.wait()
    finally:
        await runner.cleanup()


def _resolved(references: tuple[str, ...], sources: Sources) -> tuple[str, ...]:
    return tuple(SigningSecret.resolve(reference, sources).text for reference in references)
