"""
How long killed attempts took to recover.

The ledger is asked which jobs a process held when it was killed, and then when each of them has moved on. One that a
server's outage fell into counts as recovered, and its length is left out: nobody can recover meanwhile.
"""

import math
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from reliability.errors import StorageUnavailableError
from storage.jobs import JobState
from storage.protocols import JobStorage
from tests.support.worker_process import WorkerProcess

_PERIOD_S = 0.05
_MOST_LEASED = 1_000
#: A worker finds a server again within this, in seconds.
_RECONNECTING_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Hold one job that a killed process had leased."""

    job_id: str
    version: int
    killed_at_s: float


@dataclass(slots=True, kw_only=True)
class _Outage:
    """Hold one time without a server; what comes back needs a moment to be found again."""

    began_at_s: float
    ended_at_s: float = math.inf

    def touches(self, from_s: float, to_s: float) -> bool:
        """Tell whether the two times have a moment in common."""
        return self.began_at_s < to_s and self.ended_at_s + _RECONNECTING_S > from_s


class Watch:
    """Follow the jobs of killed processes until the ledger has moved on."""

    def __init__(self, jobs: JobStorage) -> None:
        self._jobs = jobs
        self._held: list[Held] = []
        #: How many attempts were running in a process when it was killed.
        self.cut_off = 0
        self._outages: list[_Outage] = []
        self._lock = threading.Lock()
        self.recovered: set[str] = set()
        #: How long each measured recovery took, with its job, in seconds.
        self.recoveries: list[tuple[float, str]] = []

    @contextmanager
    def kill_of(self, worker: WorkerProcess) -> Iterator[None]:
        """Follow what the worker and its processes hold at the end of the block."""
        pids = [worker.pid, *(worker.children() if worker.is_running else [])]
        yield
        self._follow(pids)

    @contextmanager
    def kill_of_process(self, pid: int) -> Iterator[None]:
        """Follow what one process holds at the end of the block."""
        yield
        self._follow([pid])

    @contextmanager
    def outage(self) -> Iterator[None]:
        """Note that a server is away inside the block."""
        outage = _Outage(began_at_s=time.monotonic())
        self._outages.append(outage)
        try:
            yield
        finally:
            outage.ended_at_s = time.monotonic()

    def look(self) -> None:
        """Note which jobs have moved on."""
        with self._lock:
            held = list(self._held)
        for each in held:
            try:
                row = self._jobs.get(each.job_id)
            except StorageUnavailableError:
                return
            if row is None or row.version != each.version:
                self._moved_on(each, time.monotonic())

    def run(self, stopping: threading.Event) -> None:
        """Look until told to stop."""
        while not stopping.wait(_PERIOD_S):
            self.look()

    def _follow(self, pids: list[int]) -> None:
        owners, now_s = {f"{socket.gethostname()}:{pid}" for pid in pids}, time.monotonic()
        try:
            rows = self._jobs.rows(JobState.LEASED, _MOST_LEASED)
        except StorageUnavailableError:
            return
        found = [Held(job_id=row.job_id, version=row.version, killed_at_s=now_s) for row in rows if row.owner in owners]
        with self._lock:
            self._held += found
            self.cut_off += len(found)

    def _moved_on(self, held: Held, at_s: float) -> None:
        with self._lock:
            self._held.remove(held)
        self.recovered.add(held.job_id)
        if not any(outage.touches(held.killed_at_s, at_s) for outage in self._outages):
            self.recoveries.append((at_s - held.killed_at_s, held.job_id))
