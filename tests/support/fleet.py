"""
One deployment for tests that kill things: servers, a rail, the operator's side, and as many workers as are started.

Every time is short and fits the others, so that a test waits for a recovery and not for defaults.
"""

import itertools
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kombu.entity import Queue

from reliability import clock
from reliability.settlement import SettlementObservation
from storage.bundle import Storage
from storage.jobs import JobKind, LedgerCounts, NewJob
from tasks import enqueue, messages, names
from tests.support import observations, rail
from tests.support.operator import MAX_PAYLOAD_BYTES, Operator
from tests.support.rail import RunningRail
from tests.support.worker_process import WorkerProcess, poll
from worker.cli import census
from worker.simulators.rail_script import RailScript

LEASE_S: Final = 2.0
#: Longest wait for anything that a fleet is to bring about on a busy machine, in seconds.
LIMIT_S: Final = 90.0

#: Times that fit each other: hop 2 + hard limit 4 + lease 2 + restore 1 < visibility timeout 10.
SHORT: Final[Mapping[str, str]] = {
    "CHIO_LEASE_MS": str(int(LEASE_S * 1000)),
    "CHIO_REDIS_TIMEOUT_S": "1",
    "CHIO_SOFT_TIME_LIMIT_S": "3",
    "CHIO_HARD_TIME_LIMIT_S": "4",
    "CHIO_MAX_HOP_S": "2",
    "CHIO_RESTORE_INTERVAL_S": "1",
    "CHIO_VISIBILITY_TIMEOUT_S": "10",
    "CHIO_DEAD_LETTER_REPUBLISH_S": "1",
    "CHIO_SETTLEMENT_INITIAL_BACKOFF_MS": "100",
    "CHIO_SETTLEMENT_BACKOFF_CAP_MS": "1000",
    "CHIO_SETTLEMENT_HOOK": "tasks.hooks.http_settlement:from_environment",
    "CHIO_RAIL_DEADLINE_S": "2",
    "CHIO_HEALTH_STALE_AFTER_S": "2",
    "CHIO_SOFT_SHUTDOWN_TIMEOUT_S": "5",
    "CHIO_MAX_PENDING_AGE_S": "1",
    "CHIO_ESCALATION_PERIOD_S": "1",
}


@dataclass(kw_only=True)
class Fleet:
    """Hold one deployment; `worker` adds to it."""

    directory: Path
    redis_url: str
    broker_url: str | None
    rail: RunningRail
    operator: Operator
    settings: Mapping[str, str]
    _stack: ExitStack
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def storage(self) -> Storage:
        """Return the stores."""
        return self.operator.storage

    def environ(self, **environ: str) -> dict[str, str]:
        """Return the settings of every process of this deployment."""
        broker = {"CHIO_BROKER_URL": self.broker_url} if self.broker_url else {}
        urls = {"CHIO_REDIS_URL": self.redis_url, "CHIO_RAIL_URL": self.rail.url, **broker}
        return {**SHORT, **urls, **self.settings, **environ}

    def worker(self, *, pool: str = "prefork", **environ: str) -> WorkerProcess:
        """Start a worker in a directory of its own without waiting for it; it ends with the fleet."""
        name = f"w{next(self._numbers)}"
        given = self.environ(CHIO_POOL=pool, **environ)
        worker = WorkerProcess(self.directory / name, self.redis_url, environ=given, options=("-n", f"{name}@%h"))
        self._stack.callback(worker.kill)
        worker.start()
        return worker

    def enqueue(self, *receipt_ids: str, tool: str = "search.query", batch_size: int = 1) -> None:
        """Admit settlements and wake them, as a producer does; one message wakes up to `batch_size` of them."""
        jobs = [settlement(receipt_id, tool) for receipt_id in receipt_ids]
        enqueue.enqueue_many(self.operator.app, self.storage.jobs, jobs, batch_size)

    def admit(self, *receipt_ids: str, tool: str = "search.query") -> None:
        """Admit settlements and send nothing, as a producer that died does."""
        self.storage.jobs.admit_many([settlement(receipt_id, tool) for receipt_id in receipt_ids])

    def wait_until_idle(self, limit_s: float = LIMIT_S) -> None:
        """Wait until no job is in flight."""
        poll(lambda: self.in_flight() == 0, limit_s, "every job to end")

    def wait_until_ended(self, receipt_id: str, limit_s: float = LIMIT_S) -> None:
        """Wait until one job is no longer in the ledger."""
        poll(lambda: self.storage.jobs.get(receipt_id) is None, limit_s, f"{receipt_id} to end")

    def counts(self) -> LedgerCounts:
        """Count the settlements."""
        return self.storage.jobs.counts(JobKind.SETTLEMENT)

    def in_flight(self) -> int:
        """Count the settlements that have not ended."""
        return sum(self.counts().in_flight.values())

    def is_balanced(self) -> bool:
        """Tell whether every admitted job is in exactly one place."""
        return census.take(self.storage).is_balanced

    def requests(self, receipt_id: str) -> int:
        """Count the rail's requests with this key."""
        return self.rail.tally().requests_per_key[receipt_id]

    def effects(self, receipt_id: str) -> int:
        """Count the effects the rail carried out for this key."""
        return self.rail.tally().effects_per_key[receipt_id]

    def fed(self) -> list[bytes]:
        """Take everything out of the dead-letter queue."""
        found: list[bytes] = []
        with self.operator.app.connection_for_read() as connection:
            queue = Queue(names.DEAD_LETTER_QUEUE, durable=True)(connection.default_channel)
            queue.queue_declare()
            while message := queue.get(no_ack=True):
                found.append(bytes(message.body, "utf-8") if isinstance(message.body, str) else bytes(message.body))
        return found


def settlement(receipt_id: str, tool: str = "search.query") -> NewJob:
    """Return a settlement as a producer admits it; the tool's name tells the rail what to do."""
    return messages.admissible_settlement(observation(receipt_id, tool), MAX_PAYLOAD_BYTES)


def observation(receipt_id: str, tool: str = "search.query") -> SettlementObservation:
    """Return what happened, for this receipt and tool."""
    return observations.observation(receipt_id=receipt_id, tool_name=tool)


@contextmanager
def running(
    directory: Path,
    redis_url: str,
    *,
    broker_url: str | None = None,
    script: RailScript | None = None,
    settings: Mapping[str, str] | None = None,
) -> Iterator[Fleet]:
    """Run a deployment without workers until the block ends."""
    with ExitStack() as stack:
        running_rail = stack.enter_context(rail.running_rail(directory / "effects.jsonl", script))
        given = {"broker_url": broker_url, "tls_ca_file": (settings or {}).get("CHIO_TLS_CA_FILE")}
        operator = Operator(redis_url, directory, **{name: value for name, value in given.items() if value})
        stack.callback(operator.close)
        yield Fleet(
            directory=directory,
            redis_url=redis_url,
            broker_url=broker_url,
            rail=running_rail,
            operator=operator,
            settings=settings or {},
            _stack=stack,
        )


def is_ready(worker: WorkerProcess) -> bool:
    """Tell whether the worker says that it takes jobs and can record them, as `chio-worker health ready` does."""
    found = worker.health()
    stale_after_ms = int(SHORT["CHIO_HEALTH_STALE_AFTER_S"]) * 1_000
    return found is not None and found.is_ready(clock.SystemClock().now_ms(), stale_after_ms)
