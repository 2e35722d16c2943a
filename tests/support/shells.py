"""Tasks on memory stores, run as a worker runs them: what they send and what they quarantine is noted."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import celery
import pytest
from celery.exceptions import Retry
from kombu.exceptions import OperationalError

from reliability.errors import StorageUnavailableError
from tasks.base import RuntimeTask
from tasks.observe_settlements import ObserveSettlements
from tasks.runtime import Runtime
from tests.support import backends
from tests.support.batches import MAX_HOP_MS, Bench, Hook


@dataclass
class Kept:
    """Note what is quarantined; refuse while `is_down`."""

    entries: list[tuple[bytes, str, str]] = field(default_factory=list)
    is_down: bool = False

    def keep(self, raw: bytes, queue: str, reason: str) -> None:
        """Note a message."""
        if self.is_down:
            raise StorageUnavailableError("keep", queue)
        self.entries.append((raw, queue, reason))


class Shell:
    """Hold a task of settlements on memory stores, single or for batches, and what it sends."""

    def __init__(
        self, hook: Hook, monkeypatch: pytest.MonkeyPatch, kind: type[RuntimeTask] = ObserveSettlements
    ) -> None:
        self.bench = Bench(backends.memory(), concurrency=1)
        self.quarantine = Kept()
        self.sent: list[tuple[str, dict[str, Any], float | None]] = []
        self.broker_is_down = False
        self.app = celery.Celery("test", broker="memory://")
        self.runtime = self._runtime(hook)
        monkeypatch.setattr(self.app, "send_task", self._send)
        self.task = self.app.register_task(kind(lambda: self.runtime))

    def run(self, *jobs: object, task: Any = None) -> None:
        """Run the task as a worker does."""
        self.run_with({"jobs": list(jobs)}, task)

    def run_with(self, kwargs: dict[str, Any], task: Any = None) -> None:
        """Run the task with any arguments."""
        chosen = task or self.task
        chosen.push_request(
            id="batch-1",
            kwargs=kwargs,
            args=(),
            called_directly=False,
            is_eager=True,
            retries=0,
            delivery_info={"routing_key": "settlement"},
        )
        try:
            chosen.run(**kwargs)
        finally:
            chosen.pop_request()

    def _send(self, name: str, *, kwargs: dict[str, Any], countdown: float | None = None, **_: object) -> None:
        if self.broker_is_down:
            raise OperationalError
        self.sent.append((name, kwargs, countdown))

    def comes_back(self, *jobs: object) -> tuple[object, float]:
        """Run the task, which has to ask for its message again; return the jobs it asks for and when."""
        with pytest.raises(Retry) as found:
            self.run(*jobs)
        return found.value.sig.kwargs["jobs"], found.value.when

    def _runtime(self, hook: Hook) -> Runtime:
        bench = self.bench
        return Runtime(
            storage=bench.storage,
            settlement=bench.flow(hook),
            batch=bench.batch,
            keeper=bench.keeper,
            quarantine=self.quarantine,
            new_lease=bench.new_lease,
            pause=bench.pauses_s.append,
            max_hop_ms=MAX_HOP_MS,
            max_payload_bytes=65_536,
            dead_letter_feed_max_length=10,
            max_pending_age=timedelta(hours=1),
        )
