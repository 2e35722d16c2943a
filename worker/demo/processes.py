"""
Child processes of the demo: each in a session of its own with its own log file, all ended when the demo ends.

Whatever happens in between (Ctrl-C, SIGTERM, an error), leaving the `with` block leaves no process behind.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

import psutil

from reliability.errors import ChioError

#: How long one program may take to end by itself before it is killed, in seconds.
STOP_LIMIT_S: Final = 20.0
_POLL_S: Final = 0.05
_SHOWN_LOG_LINES: Final = 15


class Child:
    """Hold one running program and everything it starts."""

    def __init__(self, name: str, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self.name = name
        self.log = log
        #: Codes with which it may end by itself at any time; none for a program that is to run until the end.
        self.may_end_with: frozenset[int] = frozenset()
        with log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603  # the project's own programs
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                cwd=log.parent,
                # Ctrl-C must reach the demo alone: it ends the others in order. Pool processes leave the group of
                # their worker and stay in its session, so the session tells what belongs together.
                start_new_session=True,
            )

    @property
    def exit_code(self) -> int | None:
        """Return how the program ended, None while it runs."""
        return self._process.poll()

    def written(self) -> str:
        """Return everything it wrote so far."""
        return self.log.read_text(errors="replace")

    def kill(self) -> None:
        """End the program with SIGKILL, and everything else in its session."""
        self._process.kill()
        self._process.wait()
        for process in self._session():
            with suppress(psutil.NoSuchProcess):
                process.kill()
                process.wait(STOP_LIMIT_S)

    def stop(self) -> None:
        """Ask the program to end, wait, and end what is left of it."""
        if self.exit_code is None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_LIMIT_S)
        self.kill()

    def _session(self) -> Iterator[psutil.Process]:
        for process in psutil.process_iter():
            with suppress(ProcessLookupError, PermissionError):
                if os.getsid(process.pid) == self._process.pid:
                    yield process


class Processes:
    """Start programs that share a folder and an environment; a context manager that ends them all."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.environment = dict(environment)
        self._children: list[Child] = []

    def start(self, name: str, arguments: Sequence[str], may_end_with: frozenset[int] = frozenset()) -> Child:
        """Start a program; its output goes to `<name>.log` in the folder."""
        child = Child(name, arguments, self.environment, self.folder / f"{name}.log")
        child.may_end_with = may_end_with
        self._children.append(child)
        return child

    def kill(self, child: Child) -> None:
        """End a program as a crash would, and expect it to be gone from now on."""
        child.kill()
        self._children.remove(child)

    def wait_until(self, ready: Callable[[], object], what: str, limit_s: float) -> None:
        """
        Wait for something that the children bring about.

        Raises:
            ChioError: A child failed meanwhile, or the limit passed.

        """
        deadline_s = time.monotonic() + limit_s
        while not ready():
            self.check()
            if time.monotonic() > deadline_s:
                raise ChioError(f"{what}: that did not happen within {limit_s:g} s; look at the logs in {self.folder}")
            time.sleep(_POLL_S)

    def check(self) -> None:
        """
        Check that every child still runs, or has ended as it may.

        Raises:
            ChioError: Naming the one that ended, with the end of its log.

        """
        for child in self._children:
            if child.exit_code is not None and child.exit_code not in child.may_end_with:
                last = "\n".join(child.written().splitlines()[-_SHOWN_LOG_LINES:])
                raise ChioError(f"{child.name} ended by itself with code {child.exit_code}; it wrote last:\n{last}")

    def finished(self, child: Child, fine: frozenset[int]) -> bool:
        """Tell whether a program that was to end has ended, with one of the codes that are fine."""
        if child in self._children and child.exit_code in fine:
            self._children.remove(child)
        return child not in self._children

    def stop(self) -> None:
        """End every child, the last one started first: the server outlives its clients."""
        while self._children:
            self._children.pop().stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # A second Ctrl-C must not leave half of them running.
        before = [(number, signal.signal(number, signal.SIG_IGN)) for number in (signal.SIGINT, signal.SIGTERM)]
        try:
            self.stop()
        finally:
            for number, handler in before:
                signal.signal(number, handler)
