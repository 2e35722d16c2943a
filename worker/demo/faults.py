"""Faults on purpose, while the demo runs: the worker killed with SIGKILL, the broker's keys deleted."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import redis

from worker.demo import stack
from worker.demo.looks import Look
from worker.demo.processes import Child, Processes
from worker.embedded import URL_FILE
from worker.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultPlan:
    """Say after how many ended jobs what goes wrong; None is never."""

    kill_worker_after: int | None = None
    delete_broker_keys_after: int | None = None


class Faults:
    """Carry a plan out, each fault once."""

    def __init__(self, plan: FaultPlan, processes: Processes, worker: Child) -> None:
        self._processes = processes
        self._worker = worker
        planned = ((plan.kill_worker_after, self._kill_worker), (plan.delete_broker_keys_after, self._delete_keys))
        self._waiting: list[tuple[int, Callable[[], str]]] = [
            (after, fault) for after, fault in planned if after is not None
        ]

    def strike(self, look: Look) -> Iterator[str]:
        """Carry out what is due and say what was done."""
        due = [planned for planned in self._waiting if look.ended >= planned[0]]
        for planned in due:
            self._waiting.remove(planned)
            yield planned[1]()

    def _kill_worker(self) -> str:
        self._processes.kill(self._worker)
        self._worker = stack.start_worker(self._processes, "worker-2")
        return "the worker was killed with SIGKILL, another one starts"

    def _delete_keys(self) -> str:
        url = (Path(self._processes.environment["CHIO_DATA_DIR"]) / URL_FILE).read_text().strip()
        prefix = Settings.model_fields["broker_key_prefix"].default
        with redis.Redis.from_url(url) as client:
            deleted = sum(client.delete(key) for key in client.scan_iter(f"{prefix}*", count=1_000))
        return f"{deleted} keys of the broker were deleted"
