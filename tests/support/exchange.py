"""
One deployment that delivers: a server, a simulated partner with its file, the operator's side, workers and beats.

Commands are run as an operator runs them. Every time is short, so that a test waits for what happens and not for
defaults.
"""

import itertools
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from storage.bundle import Storage
from storage.jobs import JobKind, LedgerCounts
from tasks import delivery_messages, enqueue
from tasks.partners import PartnerDirectory
from tests.support import partner_file
from tests.support.fleet import SHORT
from tests.support.operator import MAX_PAYLOAD_BYTES, Operator
from tests.support.partner import RunningPartner, request, running_partner
from tests.support.worker_process import CelerySubprocess, WorkerProcess, clean_environ, poll
from worker.simulators import effect_log, partner_log
from worker.simulators.partner_script import PartnerScript

#: Longest wait for anything a deployment is to bring about on a busy machine, in seconds.
LIMIT_S: Final = 90.0
_COMMAND_LIMIT_S: Final = 300.0


@dataclass(kw_only=True)
class Exchange:
    """Hold one deployment; `worker` and `beat` add to it."""

    directory: Path
    redis_url: str
    partner: RunningPartner
    operator: Operator
    settings: Mapping[str, str]
    _stack: ExitStack
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _directory: PartnerDirectory | None = None

    @property
    def partners_file(self) -> Path:
        """Return the partner file; write it before anything is started."""
        return self.directory / "partners.toml"

    @property
    def storage(self) -> Storage:
        """Return the stores."""
        return self.operator.storage

    def environ(self) -> dict[str, str]:
        """Return the settings of every process of this deployment."""
        urls = {"CHIO_REDIS_URL": self.redis_url, "CHIO_PARTNERS_FILE": str(self.partners_file)}
        noop = {"CHIO_SETTLEMENT_HOOK": "tasks.hooks.noop:NoopSettlementHook", "CHIO_LOG_FORMAT": "json"}
        return {**SHORT, **noop, **urls, **partner_file.ENVIRON, **self.settings}

    def worker(self, *, pool: str = "prefork", concurrency: int = 2) -> WorkerProcess:
        """Start a worker in a directory of its own without waiting for it; it ends with the deployment."""
        name = f"w{next(self._numbers)}"
        given = {**self.environ(), "CHIO_POOL": pool, "CHIO_CONCURRENCY": str(concurrency)}
        worker = WorkerProcess(self.directory / name, self.redis_url, environ=given, options=("-n", f"{name}@%h"))
        self._stack.callback(worker.kill)
        worker.start()
        return worker

    def beat(self) -> CelerySubprocess:
        """Start a beat in a directory of its own; it ends with the deployment."""
        beat = CelerySubprocess(self.directory / f"b{next(self._numbers)}", self.environ(), "beat")
        self._stack.callback(beat.kill)
        return beat.start()

    def command(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        """Run `chio-worker` with `--json`, expect this exit code and return its document."""
        ran = subprocess.run(
            [Path(sys.executable).with_name("chio-worker"), *arguments, "--json"],
            cwd=self.directory,
            env=clean_environ(self.directory, self.environ()),
            capture_output=True,
            text=True,
            check=False,
            timeout=_COMMAND_LIMIT_S,
        )
        assert ran.returncode == code, ran.stderr
        found: dict[str, Any] = json.loads(ran.stdout)
        return found

    def send(self, *message_ids: str, partner_id: str = "acme") -> None:
        """Admit deliveries and wake them, as a producer does that read the partner file at its first one."""
        directory = self._directory = self._directory or PartnerDirectory.load(self.partners_file, partner_file.ENVIRON)
        jobs = [
            delivery_messages.admissible_delivery(
                request(message_id).model_copy(update={"partner_id": partner_id}), directory, MAX_PAYLOAD_BYTES
            )
            for message_id in message_ids
        ]
        enqueue.enqueue_many(self.operator.app, self.storage.jobs, jobs)

    def counts(self) -> LedgerCounts:
        """Count the deliveries."""
        return self.storage.jobs.counts(JobKind.DELIVERY)

    def in_flight(self) -> int:
        """Count the deliveries that have not ended."""
        return sum(self.counts().in_flight.values())

    def wait_until_idle(self, limit_s: float = LIMIT_S) -> None:
        """Wait until no delivery is in flight."""
        poll(lambda: self.in_flight() == 0, limit_s, "every delivery to end")

    def events(self, name: str) -> list[Mapping[str, Any]]:
        """Return every event of this name that a worker told, the killed ones included."""
        return [event for log in sorted(self.directory.glob("w*/worker.log")) for event in _events_in(log, name)]

    def tally(self) -> effect_log.Tally:
        """Count what the partner logged so far."""
        return partner_log.tally(self.partner.entries())


def _events_in(log: Path, name: str) -> Iterator[Mapping[str, Any]]:
    for line in log.read_text(errors="replace").splitlines():
        if f'"{name}"' in line and line.startswith("{") and line.endswith("}"):
            document = json.loads(line)
            if document.get("event") == name:
                yield document


def told(events: list[Mapping[str, Any]], field_name: str) -> Counter[str]:
    """Count events by one of their fields."""
    return Counter(str(event[field_name]) for event in events)


@contextmanager
def running(
    directory: Path, redis_url: str, *, script: PartnerScript, settings: Mapping[str, str] | None = None
) -> Iterator[Exchange]:
    """Run a deployment without workers until the block ends."""
    with ExitStack() as stack:
        partner = stack.enter_context(running_partner(directory / "partner.jsonl", script))
        operator = Operator(redis_url, directory)
        stack.callback(operator.close)
        yield Exchange(
            directory=directory,
            redis_url=redis_url,
            partner=partner,
            operator=operator,
            settings=settings or {},
            _stack=stack,
        )
