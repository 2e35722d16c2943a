"""
What a scenario works with: a server of its own, the scale, and a place to say how far it is.

Also the shape of a scenario itself; `benchmarks.catalogue` lists them all.
"""

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.figures import Findings
from benchmarks.fleet import Fleet, FleetError
from benchmarks.scales import Scale
from tests.support.servers import RedisServer

#: Every contender's server: what a rewrite of the file costs would meet one of them by chance.
_SERVER_OPTIONS: Final = {"auto-aof-rewrite-percentage": "0"}
#: How often progress is looked at, in seconds: often enough for a rate, too seldom to slow the server.
_POLL_S: Final = 0.02
#: How long nothing may happen before a run counts as failed, in seconds.
_STANDSTILL_LIMIT_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Hold what one scenario works with."""

    server: RedisServer
    scale: Scale
    folder: Path
    say: Callable[[str], None]
    clients: dict[int, Any]

    @property
    def address(self) -> str:
        """Return the server's address without a database."""
        return f"redis://127.0.0.1:{self.server.port}"

    def client(self, database: int = 0) -> Any:
        """Return a client of a database, the same one each time."""
        if database not in self.clients:
            self.clients[database] = self.server.client(database)
        return self.clients[database]

    def renew(self) -> None:
        """
        Start the server anew with nothing in memory or on disk, on the same port.

        A server that was only emptied has its memory in pieces, and pages of its file on their way to the disk: both
        would slow whoever comes next.
        """
        self.close()
        self.server.kill()
        shutil.rmtree(self.server.data_dir)
        self.server.start()

    def close(self) -> None:
        """Close the clients."""
        for client in self.clients.values():
            client.close()
        self.clients.clear()

    def folder_for(self, name: str) -> Path:
        """Return a new folder for the logs of one run."""
        made = sum(1 for _ in self.folder.iterdir()) if self.folder.exists() else 0
        folder = self.folder / f"{made:03d}-{name.lower().replace(' ', '-').replace(',', '')}"
        folder.mkdir(parents=True)
        return folder

    def wait_for(
        self,
        count: Callable[[], int],
        least: int,
        what: str,
        fleet: Fleet | None = None,
        *,
        standstill_s: float = _STANDSTILL_LIMIT_S,
    ) -> None:
        """
        Wait until something that the fleet brings about has happened so often.

        Raises:
            FleetError: a program of the fleet ended, or nothing happened for `standstill_s` seconds.

        """
        seen, standstill_since_s = -1, time.monotonic()
        while (now := count()) < least:
            if fleet:
                fleet.check()
            if now > seen:
                seen, standstill_since_s = now, time.monotonic()
            if time.monotonic() > standstill_since_s + standstill_s:
                told = fleet.logs() if fleet else ""
                raise FleetError(f"{what}: {now} of {least}, then nothing for {standstill_s:g} s\n{told}")
            time.sleep(_POLL_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Name one question and how it is answered."""

    name: str
    title: str
    #: One or two sentences above the figures: what is measured and how.
    question: str
    run: Callable[[Bench], Findings]
    #: Why it cannot be measured yet; None where it can.
    missing: Callable[[], str | None] = lambda: None


@contextlib.contextmanager
def opened(scale: Scale, folder: Path, say: Callable[[str], None]) -> Iterator[Bench]:
    """Start a server for one scenario."""
    with RedisServer(folder / "server", options=_SERVER_OPTIONS) as server:
        bench = Bench(server=server, scale=scale, folder=folder / "runs", say=say, clients={})
        try:
            yield bench
        finally:
            bench.close()
