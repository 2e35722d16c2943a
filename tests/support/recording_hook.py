"""
A settlement hook for worker tests: writes each call to a file, takes its time, and accepts.

Loaded by path in a worker process; told by the environment where to write and how long to take.
"""

import os
import threading
from dataclasses import dataclass
from pathlib import Path

from reliability.outcomes import Accepted, SettlementResult
from reliability.settlement import SettlementObservation

#: Names the file that calls are written to, one receipt id a line.
CALLS_VARIABLE = "TEST_HOOK_CALLS"
#: Names how long a call takes, in seconds.
SECONDS_VARIABLE = "TEST_HOOK_SECONDS"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingHook:
    """Write `begin <id>` and `end <id>` around a pause."""

    calls: Path
    seconds: float

    def observe(self, observation: SettlementObservation) -> SettlementResult:
        """Accept after the pause."""
        self._write(f"begin {observation.receipt_id}")
        threading.Event().wait(self.seconds)
        self._write(f"end {observation.receipt_id}")
        return Accepted("transcript")

    def _write(self, line: str) -> None:
        with self.calls.open("a", encoding="utf-8") as calls:
            calls.write(f"{line}\n")


def from_environment() -> RecordingHook:
    """Make the hook that the environment describes."""
    return RecordingHook(calls=Path(os.environ[CALLS_VARIABLE]), seconds=float(os.environ[SECONDS_VARIABLE]))


def environ_of(calls: Path, seconds: float) -> dict[str, str]:
    """Return what makes a worker use this hook."""
    return {
        "CHIO_SETTLEMENT_HOOK": f"{__name__}:from_environment",
        CALLS_VARIABLE: str(calls),
        SECONDS_VARIABLE: str(seconds),
    }


def calls_in(calls: Path) -> list[str]:
    """Return the lines written so far."""
    return calls.read_text(encoding="utf-8").splitlines() if calls.exists() else []
