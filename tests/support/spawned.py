"""A server program that a test starts: everything it writes goes to one log, and its start is awaited."""

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.ports import PortTakenError

_POLL_S: Final = 0.02
_SHOWN_CHARACTERS: Final = 2_000
#: What servers write when they cannot listen: Redis and Valkey, and a node of Erlang at any of its three ports.
_TAKEN: Final = ("Address already in use", "eaddrinuse", "nodistribution", "dist_port_already_used")


@dataclass(frozen=True, slots=True)
class Spawned:
    """Hold the process and where in its log this start begins: an earlier one may have written to the same file."""

    process: subprocess.Popen[bytes]
    log: Path
    begins_at: int

    def written(self) -> str:
        """Return what it wrote since this start."""
        with self.log.open("rb") as content:
            content.seek(self.begins_at)
            return content.read().decode(errors="replace")

    def wait_until(self, is_ready: Callable[[], bool], limit_s: float) -> None:
        """
        Wait until it is ready.

        Raises:
            PortTakenError: if it ended because it could not listen.
            AssertionError: if it ended for another reason or is not ready in time.

        """
        give_up_at = time.monotonic() + limit_s
        while not is_ready():
            ended = self.process.poll() is not None
            log = self.written()
            if ended and any(sign in log for sign in _TAKEN):
                raise PortTakenError(log[-_SHOWN_CHARACTERS:])
            assert not ended, f"the server ended while starting; its log ends with:\n{log[-_SHOWN_CHARACTERS:]}"
            assert time.monotonic() < give_up_at, f"the server is not ready after {limit_s} s:\n{log}"
            time.sleep(_POLL_S)


def spawn(command: Sequence[str], log: Path, environ: Mapping[str, str] | None = None) -> Spawned:
    """Start a server in a session of its own: Ctrl-C reaches the tests only, which still need it to end in order."""
    begins_at = log.stat().st_size if log.exists() else 0
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environ,
            start_new_session=True,
        )
    return Spawned(process, log, begins_at)
