"""The rail simulator in a thread of the test, on a free loopback port."""

import asyncio
import contextlib
import json
import threading
import urllib.request
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from worker.simulators import effect_log, rail
from worker.simulators.effect_log import LogEntry, Tally
from worker.simulators.rail_script import RailScript

Result = TypeVar("Result")
_LONGEST_WAIT_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningRail:
    """Hold where the rail listens and what it writes."""

    port: int
    log_path: Path

    @property
    def url(self) -> str:
        """Return where observations are posted."""
        return f"http://127.0.0.1:{self.port}/settlements"

    def entries(self) -> list[LogEntry]:
        """Read what it logged so far."""
        return list(effect_log.read(self.log_path))

    def tally(self) -> Tally:
        """Count what it logged so far."""
        return effect_log.tally(self.entries())

    def stats(self) -> dict[str, object]:
        """Ask it for its counts."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/__stats", timeout=_LONGEST_WAIT_S) as answer:
            found: dict[str, object] = json.load(answer)
        return found


@contextlib.contextmanager
def running_rail(log_path: Path, script: RailScript | None = None) -> Iterator[RunningRail]:
    """Run a rail until the block ends; without a script it follows the tool names."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="rail", daemon=True)
    thread.start()
    simulator = rail.RailSimulator(script or RailScript(), log_path)
    runner, port = _run(loop, rail.start(simulator, "127.0.0.1", 0))
    try:
        yield RunningRail(port=port, log_path=log_path)
    finally:
        _run(loop, runner.cleanup())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_LONGEST_WAIT_S)
        loop.close()


def scripted(tools: Mapping[str, Sequence[str]], *, repeat: str = "ok") -> RailScript:
    """Return a script by tool name."""
    return RailScript.from_document({"tools": {name: list(steps) for name, steps in tools.items()}, "repeat": repeat})


def _run(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[object, object, Result]) -> Result:
    return asyncio.run_coroutine_threadsafe(coroutine, loop).result(_LONGEST_WAIT_S)
