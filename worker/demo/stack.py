"""
The programs of the demo and how they are told about each other: ports of their own, a data directory of their own.

Nothing of the caller's own settings reaches them, so a demo never touches a server that somebody cares about.
"""

import os
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from worker import ports
from worker.demo.processes import Child, Processes

#: How long one program may take to be ready on a slow machine, in seconds.
READY_LIMIT_S: Final = 60.0
_PREFIX: Final = "CHIO_"
#: Short waits, so that every retry and every recovery is over within a demo.
SETTINGS: Final[Mapping[str, str]] = {
    "CHIO_SETTLEMENT_INITIAL_BACKOFF_MS": "200",
    "CHIO_SETTLEMENT_BACKOFF_CAP_MS": "2000",
    "CHIO_LEASE_MS": "6000",
    "CHIO_REDIS_TIMEOUT_S": "3",
    "CHIO_SOFT_TIME_LIMIT_S": "8",
    "CHIO_HARD_TIME_LIMIT_S": "12",
    "CHIO_SOFT_SHUTDOWN_TIMEOUT_S": "5",
    # The demo reads the workers' events.
    "CHIO_LOG_FORMAT": "json",
    # Long enough that receipts come first, short enough to see what happens when they do not.
    "CHIO_MAX_PENDING_AGE_S": "6",
    "CHIO_ESCALATION_PERIOD_S": "1",
    "CHIO_RAIL_DEADLINE_S": "5",
    # Flower shows every task, not only those that come after it has asked for events.
    "CHIO_SEND_TASK_EVENTS": "true",
    # One message a job, so that Flower shows each receipt by its id.
    "CHIO_BATCH_SIZE": "1",
}
_BIN: Final = Path(sys.executable).parent
_FLOWER_OPTIONS: Final = Path(__file__).parents[1] / "flowerconfig.py"
_CELERY: Final = (sys.executable, "-m", "celery", "-A", "worker.app")


def environment_in(folder: Path) -> dict[str, str]:
    """Return the environment of every program: the caller's without its settings, and the demo's."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_PREFIX)}
    return {
        **inherited,
        **SETTINGS,
        "CHIO_DATA_DIR": str(folder),
        "CHIO_FLOWER_PORT": str(ports.free_port()),
        "PYTHONUNBUFFERED": "1",
    }


def command(*arguments: str) -> list[str]:
    """Return a call of `chio-worker`."""
    return [str(_BIN / "chio-worker"), *arguments]


def start_server(processes: Processes) -> None:
    """Start the packaged server and wait until it answers."""
    server = processes.start("server", [sys.executable, "-m", "worker.embedded"])
    processes.wait_until(lambda: "ready on port" in server.written(), "the server is ready", READY_LIMIT_S)


def start_rail(processes: Processes, script: Path, effects: Path) -> None:
    """Start the rail and tell the programs that come later where it listens."""
    arguments = command("simulate", "rail", "--script", str(script), "--log", str(effects))
    rail = processes.start("rail", arguments)
    processes.wait_until(lambda: "listens on " in rail.written(), "the rail listens", READY_LIMIT_S)
    address = rail.written().partition("listens on ")[2].split()[0]
    processes.environment["CHIO_RAIL_URL"] = f"{address}/settle"


def start_partner(processes: Processes, name: str, port: int, script: Path, effects: Path) -> str:
    """Start a partner, wait until it listens and return its host and port; port 0 takes a free one."""
    arguments = command("simulate", "partner", "--port", str(port), "--script", str(script), "--log", str(effects))
    partner = processes.start(name, arguments)
    processes.wait_until(lambda: "listens on " in partner.written(), f"{name} listens", READY_LIMIT_S)
    return partner.written().partition("listens on http://")[2].split()[0]


def start_worker(processes: Processes, name: str) -> Child:
    """Start a worker without waiting for it."""
    arguments = ["worker", "--concurrency", "2", "--without-gossip", "--without-mingle", "--hostname", f"{name}@%h"]
    return processes.start(name, [*_CELERY, *arguments])


def start_beat(processes: Processes) -> None:
    """Start beat without waiting for it."""
    processes.start("beat", [*_CELERY, "beat"])


def start_flower(processes: Processes) -> str:
    """Start Flower, wait until it answers, and return its address."""
    processes.start("flower", [*_CELERY, "flower", f"--conf={_FLOWER_OPTIONS}"])
    address = f"http://127.0.0.1:{processes.environment['CHIO_FLOWER_PORT']}"
    processes.wait_until(lambda: answers(f"{address}/healthcheck"), "Flower answers", READY_LIMIT_S)
    return address


def wait_for_worker(processes: Processes, worker: Child) -> None:
    """Wait until the worker takes messages."""
    processes.wait_until(lambda: " ready." in worker.written(), "the worker is ready", READY_LIMIT_S)


def answers(url: str) -> bool:
    """Tell whether a loopback address answers."""
    try:
        with urllib.request.urlopen(url, timeout=2):  # noqa: S310  # an http address this module made
            return True
    except (urllib.error.URLError, OSError):
        return False
