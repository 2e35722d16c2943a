"""
The deployment that is put under fire: servers, simulators, workers and beat, each kept running as an operator would.

A process manager's part is played by `tend`: whatever ended is started again. A worker that ends by itself is a
finding; one that was killed or told to end is not.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.chaos import work
from tests.chaos.plan import Plan
from tests.support import fleet, rabbit
from tests.support.crash_orders import Orders
from tests.support.operator import Operator
from tests.support.servers import RedisServer
from tests.support.worker_process import CelerySubprocess, WorkerProcess, clean_environ, poll

#: The pools of the workers, one worker each.
POOLS: Final = ("prefork", "prefork", "threads")
_START_LIMIT_S: Final = 90.0
#: A worker that was told to end has to be gone after this: its grace and the interruption of hooks, with room.
_END_LIMIT_S: Final = 20.0
_BIN: Final = Path(sys.executable).with_name("chio-worker")

#: Beyond the short times of every fleet: more attempts, so that faults do not spend them all.
SETTINGS: Final = {
    "CHIO_SETTLEMENT_MAX_RETRIES": "8",
    "CHIO_CONCURRENCY": "3",
    "CHIO_LOST_MESSAGE_SLACK_MS": "1000",
    "CHIO_LOG_LEVEL": "INFO",
    **work.SECRETS,
}


class Simulator:
    """Run a rail or a partner as a program of its own."""

    def __init__(self, what: str, script: Path, log: Path) -> None:
        self.log = log
        self._process = subprocess.Popen(
            [_BIN, "simulate", what, "--script", script, "--log", log],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env=clean_environ(log.parent, work.SECRETS),
            start_new_session=True,
            text=True,
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().split("listens on ")[-1].split()[0]

    def kill(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


@dataclass(kw_only=True)
class Slot:
    """Hold the place of one worker: who runs there now."""

    pool: str
    worker: WorkerProcess
    is_ending: bool = False
    told_to_end_at_s: float = 0.0


@dataclass(kw_only=True)
class Site:
    """Hold everything that runs."""

    plan: Plan
    directory: Path
    ledger: RedisServer
    broker: RedisServer | rabbit.RabbitServer
    rail: Simulator
    partner: Simulator
    operator: Operator
    orders: Orders
    slots: list[Slot] = field(default_factory=list)
    beat: CelerySubprocess | None = None
    #: What a process did that nobody told it to.
    findings: list[str] = field(default_factory=list)
    _started: int = 0
    _tended: threading.Lock = field(default_factory=threading.Lock)

    @property
    def is_apart(self) -> bool:
        """Tell whether the broker is a server of its own."""
        return self.broker is not self.ledger

    def environ(self) -> dict[str, str]:
        """Return the settings of every process."""
        return {
            **fleet.SHORT,
            "CHIO_REDIS_URL": self.ledger.url,
            "CHIO_BROKER_URL": self.broker.url,
            "CHIO_RAIL_URL": f"{self.rail.url}/settle",
            "CHIO_PARTNERS_FILE": str(self.directory / "partners.toml"),
            "CHIO_LOG_FORMAT": "json",
            **SETTINGS,
            **self.orders.environ(),
        }

    def start_all(self) -> None:
        """Start every worker and beat, and wait until the workers are ready."""
        self.slots = [Slot(pool=pool, worker=self._new_worker(pool)) for pool in POOLS]
        self.beat = self._new_beat()
        for slot in self.slots:
            slot.worker.wait_until_ready()

    def tend(self) -> None:
        """Start again whatever ended, and note what ended by itself."""
        with self._tended:
            for slot in self.slots:
                self._tend(slot)
            if self.beat and not self.beat.is_running:
                self.beat = self._new_beat()

    def stop_all(self) -> None:
        """Tell every worker to end, as at the end of a day, and note who does not."""
        with self._tended:
            for slot in self.slots:
                slot.worker.terminate() if slot.worker.is_running else None
            for slot in self.slots:
                self._end(slot)
            if self.beat:
                self.beat.kill()

    def logs(self) -> Iterator[Path]:
        """Yield every worker's log, the killed ones' included."""
        yield from sorted(self.directory.glob("w*/worker.log"))

    def _tend(self, slot: Slot) -> None:
        if slot.worker.is_running:
            late = slot.is_ending and time.monotonic() - slot.told_to_end_at_s > _END_LIMIT_S
            if not late:
                return
            self.findings.append(f"{slot.worker.directory.name} did not end within {_END_LIMIT_S:g} s of SIGTERM")
            slot.worker.kill_session()
        code = slot.worker.wait(1)
        # A worker that is told to end before it has begun has no answer of its own to SIGTERM.
        fine = {0, -signal.SIGKILL, -signal.SIGTERM} if slot.is_ending else {-signal.SIGKILL}
        if code not in fine:
            self.findings.append(f"{slot.worker.directory.name} ended by itself with code {code}")
        slot.worker, slot.is_ending = self._new_worker(slot.pool), False

    def _end(self, slot: Slot) -> None:
        name = slot.worker.directory.name
        with suppress(AssertionError):
            if slot.worker.wait(_END_LIMIT_S) not in {0, -signal.SIGKILL, -signal.SIGTERM}:
                self.findings.append(f"{name} ended with another code than 0")
            return
        self.findings.append(f"{name} did not end within {_END_LIMIT_S:g} s of SIGTERM")
        slot.worker.kill_session()

    def _new_worker(self, pool: str) -> WorkerProcess:
        name, self._started = f"w{self._started}", self._started + 1
        environ = {**self.environ(), "CHIO_POOL": pool}
        worker = WorkerProcess(self.directory / name, self.ledger.url, environ=environ, options=("-n", f"{name}@%h"))
        return worker.start() and worker

    def _new_beat(self) -> CelerySubprocess:
        name, self._started = f"b{self._started}", self._started + 1
        return CelerySubprocess(self.directory / name, self.environ(), "beat").start()


@contextmanager
def running(plan: Plan, directory: Path) -> Iterator[Site]:
    """Run a site until the block ends; everything it started ends with it."""
    with ExitStack() as stack:
        # What a producer was told is on disk must be there after a SIGKILL of the server.
        ledger = stack.enter_context(RedisServer(directory / "ledger", appendfsync="always"))
        broker = _broker(plan, directory, ledger, stack)
        rail = Simulator("rail", work.write_rail_script(directory / "rail.json"), directory / "rail.jsonl")
        stack.callback(rail.kill)
        script = work.write_partner_script(directory / "partner.json")
        partner = Simulator("partner", script, directory / "partner.jsonl")
        stack.callback(partner.kill)
        work.write_partners(directory / "partners.toml", partner.url)
        given = {"broker_url": broker.url, "broker_timeout_s": 2, "connect_timeout_s": 1}
        operator = Operator(ledger.url, directory, **given)
        stack.callback(operator.close)
        site = Site(
            plan=plan,
            directory=directory,
            ledger=ledger,
            broker=broker,
            rail=rail,
            partner=partner,
            operator=operator,
            orders=Orders(path=directory / "orders"),
        )
        stack.callback(_kill_rest, site)
        yield site


def _broker(plan: Plan, directory: Path, ledger: RedisServer, stack: ExitStack) -> RedisServer | rabbit.RabbitServer:
    if plan.broker == "rabbitmq":
        return stack.enter_context(rabbit.RabbitServer(directory / "rabbitmq"))
    if plan.is_apart:
        return stack.enter_context(RedisServer(directory / "broker"))
    return ledger


def _kill_rest(site: Site) -> None:
    for slot in site.slots:
        if slot.worker.is_running:
            slot.worker.kill_session()
    if site.beat:
        site.beat.kill()


def thaw(pid: int) -> None:
    """Let a process go on that stands still; one that is gone is left alone."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def wait_until_back(site: Site) -> None:
    """Wait until every worker is ready."""
    poll(lambda: all(fleet.is_ready(slot.worker) for slot in site.slots), _START_LIMIT_S, "the workers to be ready")
