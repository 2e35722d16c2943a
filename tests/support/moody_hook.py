"""
A settlement hook whose mood is in the receipt's id, for tests with real workers: writes each call to a file.

`kill-...` kills its process, `hang-...` does not answer for a minute, `busy-...` fails for a while; others are accepted
after a pause.
"""

import os
import signal
import threading
from dataclasses import dataclass
from pathlib import Path

from reliability.errors import HookTransientError
from reliability.outcomes import Accepted, SettlementResult
from reliability.settlement import SettlementObservation
from tests.support.recording_hook import CALLS_VARIABLE, SECONDS_VARIABLE

_HANGS_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MoodyHook:
    """Write `begin <id>` and do what the id says."""

    calls: Path
    seconds: float

    def observe(self, observation: SettlementObservation) -> SettlementResult:
        """Answer as the receipt's id asks."""
        with self.calls.open("a", encoding="utf-8") as calls:
            calls.write(f"begin {observation.receipt_id}\n")
        match observation.receipt_id.partition("-")[0]:
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "hang":
                threading.Event().wait(_HANGS_S)
            case "busy":
                raise HookTransientError("busy")
            case _:
                threading.Event().wait(self.seconds)
        return Accepted("transcript")


def from_environment() -> MoodyHook:
    """Make the hook that the environment describes."""
    return MoodyHook(calls=Path(os.environ[CALLS_VARIABLE]), seconds=float(os.environ[SECONDS_VARIABLE]))


def environ_of(calls: Path, seconds: float = 0.0) -> dict[str, str]:
    """Return what makes a worker use this hook."""
    return {
        "CHIO_SETTLEMENT_HOOK": f"{__name__}:from_environment",
        CALLS_VARIABLE: str(calls),
        SECONDS_VARIABLE: str(seconds),
    }
