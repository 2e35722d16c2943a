"""
Whether a worker lives and whether it is ready, told by a small file that `chio-worker health` and probes read.

Live: the process writes its file and, while it consumes, its main loop turns. Ready: it is live, connected to its
queues, and its ledger took writes lately. A worker that waits for a server is live and not ready: a restart would not
help.
"""

import contextlib
import os
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import pydantic
from celery import bootsteps

from worker.connected_timer import ConnectedTimer

#: How often the file is written and the main loop is asked to prove that it turns, in seconds.
_PERIOD_S: Final = 1.0
_STOP_LIMIT_S: Final = 2.0
_SUFFIX: Final = ".json"


class WorkerHealth(pydantic.BaseModel):
    """Hold what one worker last told of itself; instants are Unix milliseconds of its own clock."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    node: str
    pid: int
    written_at_ms: int
    loop_turned_at_ms: int
    ledger_reached_at_ms: int
    consuming: bool

    def is_live(self, now_ms: int, stale_after_ms: int) -> bool:
        """Tell whether the worker can be left alone."""
        turning = not self.consuming or now_ms - self.loop_turned_at_ms <= stale_after_ms
        return turning and now_ms - self.written_at_ms <= stale_after_ms

    def is_ready(self, now_ms: int, stale_after_ms: int) -> bool:
        """Tell whether the worker takes jobs and can record them."""
        reached = now_ms - self.ledger_reached_at_ms <= stale_after_ms
        return self.consuming and reached and self.is_live(now_ms, stale_after_ms)


def read(data_dir: Path) -> list[WorkerHealth]:
    """Return what the workers of this data directory last told, by node; a broken file counts as no worker."""
    found = []
    for path in sorted(_directory(data_dir).glob(f"*{_SUFFIX}")):
        with contextlib.suppress(OSError, pydantic.ValidationError):
            found.append(WorkerHealth.model_validate_json(path.read_bytes()))
    return found


def _directory(data_dir: Path) -> Path:
    return data_dir / "health"


@dataclass(slots=True, kw_only=True)
class _Facts:
    loop_turned_at_ms: int = 0
    ledger_reached_at_ms: int = 0
    consuming: bool = False


class Pulse:
    """Gather one worker's facts from its threads and write them down."""

    def __init__(self, data_dir: Path, now_ms: Callable[[], int]) -> None:
        self._data_dir = data_dir
        self._now_ms = now_ms
        self._facts = _Facts()

    def loop_turned(self) -> None:
        """Note that the main loop turned."""
        self._facts.loop_turned_at_ms = self._now_ms()

    def ledger_reached(self) -> None:
        """Note that the ledger takes writes."""
        self._facts.ledger_reached_at_ms = self._now_ms()

    @property
    def is_consuming(self) -> bool:
        """Tell whether the worker is connected to its queues."""
        return self._facts.consuming

    def consuming(self, *, now: bool) -> None:
        """Note whether the worker is connected to its queues."""
        self._facts.consuming = now
        self.loop_turned()

    def write(self, node: str) -> None:
        """Write the file whole or not at all; a full or missing disk makes the worker look dead, not die."""
        health = WorkerHealth(node=node, pid=os.getpid(), written_at_ms=self._now_ms(), **asdict(self._facts))
        path = self._path(node)
        with contextlib.suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft = path.with_suffix(".new")
            draft.write_text(health.model_dump_json(), encoding="utf-8")
            draft.replace(path)

    def forget(self, node: str) -> None:
        """Remove the file: a worker that stopped in order is not a dead one."""
        with contextlib.suppress(OSError):
            self._path(node).unlink(missing_ok=True)

    def _path(self, node: str) -> Path:
        return _directory(self._data_dir) / f"{node.replace('/', '_')}{_SUFFIX}"


class PulseThread(bootsteps.StartStopStep):  # type: ignore[misc]  # Celery ships no types
    """Write the file while the worker runs, from a thread: the main loop stands still while it reconnects."""

    requires = ("celery.worker.components:Pool",)

    def __init__(self, worker: Any, **_: Any) -> None:
        self._pulse: Pulse = worker.app.composition.pulse
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, worker: Any) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, args=(worker.hostname,), name="pulse", daemon=True)
        self._thread.start()

    def stop(self, worker: Any) -> None:
        """Stop the thread and remove the file."""
        self._stopping.set()
        if self._thread:
            self._thread.join(_STOP_LIMIT_S)
        self._pulse.forget(worker.hostname)

    terminate = stop

    def _run(self, node: str) -> None:
        self._pulse.write(node)
        while not self._stopping.wait(_PERIOD_S):
            self._pulse.write(node)


class ConsumerPulse(ConnectedTimer):
    """Note when the worker is connected, and let its main loop prove that it turns."""

    requires = ("celery.worker.consumer.tasks:Tasks",)
    period_s = _PERIOD_S

    def __init__(self, consumer: Any, **options: Any) -> None:
        super().__init__(consumer, **options)
        self._pulse: Pulse = consumer.app.composition.pulse

    def due(self, _consumer: Any) -> Callable[[], object]:
        """Prove that the loop turns."""
        return self._pulse.loop_turned

    def start(self, consumer: Any) -> None:
        """Begin with every new connection."""
        self._pulse.consuming(now=True)
        super().start(consumer)

    def stop(self, consumer: Any) -> None:
        """End with the connection."""
        self._pulse.consuming(now=False)
        super().stop(consumer)
