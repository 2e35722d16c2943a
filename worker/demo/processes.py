"""
Child processes of the demo: each in its own process group with its own log file, all ended when the demo ends.

Whatever happens in between (Ctrl-C, SIGTERM, an error), leaving the `with` block leaves no process behind.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from reliability.errors import ChioError

#: How long a group may take to end by itself: the worker's soft shutdown and a margin.
STOP_LIMIT_S = 15.0
_POLL_S = 0.05
_SHOWN_LOG_LINES = 15


class Child:
    """Hold one running program and everything it starts."""

    def __init__(self, name: str, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603  # the project's own programs
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                cwd=log.parent,
                # Ctrl-C must reach the demo alone: it ends the others in order.
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Return the process id, which is the id of its group too."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Tell whether the program itself lives."""
        return self._process.poll() is None

    def terminate(self) -> None:
        """Ask the program to end."""
        with suppress(ProcessLookupError):
            self._process.terminate()

    def kill(self) -> None:
        """End the program and everything it started with SIGKILL."""
        self._kill_group()
        self._process.wait()

    def end_by(self, deadline_s: float) -> None:
        """Wait until the monotonic deadline for the program to end, then end what is left of its group."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, deadline_s - time.monotonic()))
        self.kill()

    def log_tail(self) -> str:
        """Return the last lines it wrote."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-_SHOWN_LOG_LINES:])

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)


class Processes:
    """Start programs that share a folder and an environment; a context manager that ends them all."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.environment = environment
        self._children: list[Child] = []

    def start(self, name: str, arguments: Sequence[str]) -> Child:
        """Start a program; its output goes to `<name>.log` in the folder."""
        child = Child(name, arguments, self.environment, self.folder / f"{name}.log")
        self._children.append(child)
        return child

    def kill(self, child: Child) -> None:
        """End a program as a crash would, and expect it to be gone from now on."""
        child.kill()
        self._children.remove(child)

    def wait_until(self, ready: Callable[[], bool], what: str, limit_s: float) -> None:
        """
        Wait for something that a child brings about.

        Raises:
            ChioError: A child ended meanwhile, or the limit passed; with the end of its log.

        """
        deadline_s = time.monotonic() + limit_s
        while not ready():
            self.check()
            if time.monotonic() > deadline_s:
                raise ChioError(f"{what} did not happen within {limit_s:g} s; the logs are in {self.folder}")
            time.sleep(_POLL_S)

    def check(self) -> None:
        """
        Check that every child still runs.

        Raises:
            ChioError: Naming the one that ended, with the end of its log.

        """
        for child in self._children:
            if not child.is_running:
                raise ChioError(f"{child.name} ended by itself; its log {child.log} ends with:\n{child.log_tail()}")

    def stop(self) -> None:
        """End every child, the last one started first: the server outlives its clients."""
        while self._children:
            child = self._children.pop()
            child.terminate()
            child.end_by(time.monotonic() + STOP_LIMIT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # A second Ctrl-C must not leave half of them running.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        self.stop()
