"""
Every queue that is measured: how its workers and its producer start, and where its finished jobs are counted.

Each runs as its documentation advises for many short jobs; what is set, and why, stands beside it. This project runs
with its defaults and logs from WARNING on, which is where stock Celery's workers log by default.
"""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks import effects
from benchmarks.fleet import Launch
from storage.jobs import FinishedAs, JobKind
from storage.keys import Key, Keys

#: The checkout.
ROOT: Final = Path(__file__).parents[1]
#: The interpreter of each environment of other queues, by the name of its dependency group.
PEER_PYTHONS: Final = {name: ROOT / ".venv-bench" / name / "bin" / "python" for name in ("bench", "bench-redis5")}
_OWN_PYTHON: Final = Path(sys.executable)

#: A program and its arguments after the interpreter.
Arguments = tuple[str, ...]
#: Give the client of a database.
ClientOf = Callable[[int], Any]
#: Count the finished jobs.
Count = Callable[[ClientOf], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """Hold how one queue is run. `workers` returns the programs that make so many worker processes."""

    name: str
    python: Path = _OWN_PYTHON
    workers: Callable[[int], list[Arguments]]
    producer: Arguments
    finished: Count
    #: Settings beside the server's address.
    environment: Mapping[str, str] = field(default_factory=dict)

    def launch(self, processes: int, server: str, folder: Path) -> Launch:
        """Return how to start its workers."""
        environment = self.environment_in(server, folder)
        commands = [(str(self.python), *arguments) for arguments in self.workers(processes)]
        return Launch(commands=commands, environment=environment, folder=folder)

    def producer_command(self, *arguments: str) -> list[str]:
        """Return the call of its producer."""
        return [str(self.python), *self.producer, *arguments]

    def environment_in(self, server: str, folder: Path) -> dict[str, str]:
        """Return the environment of all its programs: nothing of the caller's own settings reaches them."""
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("CHIO_", "CELERY_", "BENCHMARK_", "RQ_", "PYTEST_"))
        }
        return {
            **inherited,
            "PYTHONPATH": str(ROOT),
            "CHIO_REDIS_URL": f"{server}/{effects.QUEUE_DATABASE}",
            "CHIO_DATA_DIR": str(folder / ".chio"),
            "CHIO_LOG_LEVEL": "WARNING",
            effects.SERVER_VARIABLE: server,
            **self.environment,
        }


def _module(name: str, *arguments: str) -> Arguments:
    return ("-m", name, *arguments)


def own_command(module: str, *arguments: str) -> list[str]:
    """Return the call of a module in this project's environment."""
    return [str(_OWN_PYTHON), *_module(module, *arguments)]


def _celery(app: str, processes: int) -> Arguments:
    # Gossip and mingling are for clusters that elect and compare revoked tasks; neither side needs them here.
    return _module(
        "celery", "-A", app, "worker", "--concurrency", str(processes), "--without-gossip", "--without-mingle"
    )


def _in_database(database: int) -> Count:
    return lambda client: int(client(database).dbsize())


def in_ledger(kind: JobKind, ending: FinishedAs) -> Count:
    """Return what counts the jobs of a kind that ended so."""
    key = Keys().of(Key.COUNTS, kind.value)
    return lambda client: int(client(effects.QUEUE_DATABASE).hget(key, ending.value) or 0)


def own(
    name: str = "chio-worker",
    hook: str = "tasks.hooks.noop:NoopSettlementHook",
    environment: Mapping[str, str] | None = None,
) -> Contender:
    """Return this project with a settlement hook and further settings."""
    return Contender(
        name=name,
        workers=lambda processes: [_celery("worker.app", processes)],
        producer=_module("benchmarks.chio_producer"),
        finished=in_ledger(JobKind.SETTLEMENT, FinishedAs.SETTLED),
        environment={"CHIO_SETTLEMENT_HOOK": hook, **(environment or {})},
    )


def stock(
    name: str, task: str, finished_in: int = effects.DONE_DATABASE, environment: Mapping[str, str] | None = None
) -> Contender:
    """Return stock Celery with one of the tasks in `benchmarks.stock`."""
    return Contender(
        name=name,
        # Heartbeats to other workers are not needed on one machine (`celery worker --help`).
        workers=lambda processes: [(*_celery("benchmarks.stock", processes), "--without-heartbeat")],
        producer=_module("benchmarks.stock_producer"),
        finished=_in_database(finished_in),
        environment={effects.TASK_VARIABLE: task, **(environment or {})},
    )


CHIO: Final = own()
CELERY: Final = stock("Celery", "stock.settle")
CHIO_BATCHES: Final = own("chio-worker, batches", environment={effects.BATCH_SIZE_VARIABLE: "500"})
#: What is written most often: no result is kept.
CELERY_DEDUP: Final = stock("Celery, no result", "stock.settle_only_dedup", effects.SEEN_DATABASE)


def _peer(name: str, module: str, workers: Callable[[int], list[Arguments]], group: str = "bench") -> Contender:
    return Contender(
        name=name,
        python=PEER_PYTHONS[group],
        workers=workers,
        producer=_module("benchmarks.peers.produce", module),
        finished=_in_database(effects.DONE_DATABASE),
    )


PEERS: Final = (
    _peer(
        "Dramatiq",
        "dramatiq_peer",
        # Eight threads in each process are its default.
        lambda processes: [_module("dramatiq", "benchmarks.peers.dramatiq_peer", "--processes", str(processes))],
    ),
    _peer(
        "TaskIQ",
        "taskiq_peer",
        # A hundred tasks at a time in each process are its default; so many are prefetched.
        lambda processes: [
            _module(
                "taskiq",
                "worker",
                "benchmarks.peers.taskiq_peer:broker",
                *("--workers", str(processes), "--max-prefetch", "100", "--log-level", "WARNING"),
            )
        ],
    ),
    _peer(
        "Huey",
        "huey_peer",
        # Processes for tasks that need the processor; no scheduler of periodic tasks.
        lambda processes: [
            _module(
                "huey.bin.huey_consumer",
                "benchmarks.peers.huey_peer.huey",
                *("-w", str(processes), "-k", "process", "-n", "-q"),
            )
        ],
    ),
    _peer(
        "SAQ",
        "saq_peer",
        lambda processes: [_module("saq", "benchmarks.peers.saq_peer.settings", "--workers", str(processes))],
        group="bench-redis5",
    ),
    _peer(
        "arq",
        "arq_peer",
        # It has no pool: as many workers as processes.
        lambda processes: [_module("arq", "benchmarks.peers.arq_peer.WorkerSettings")] * processes,
        group="bench-redis5",
    ),
    _peer(
        "RQ",
        "rq_peer",
        # Without a fork for each job.
        lambda processes: [
            _module(
                "benchmarks.peers.rq_workers",
                "worker-pool",
                "peer",
                "-n",
                str(processes),
                "-w",
                "rq.SimpleWorker",
                "-q",
            )
        ],
    ),
)
#: Everything that is measured side by side.
ALL: Final = (CHIO, CELERY, CELERY_DEDUP, *PEERS)
