"""
Worker processes of one contender: started together, watched, and ended with everything they started.

Each program has a session of its own, which its children stay in, so that what belongs together is known whatever
process groups they move to. Nothing is left behind when a block ends.
"""

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

import psutil

_KILL_LIMIT_S: Final = 10.0
_SHOWN_CHARACTERS: Final = 3_000


class FleetError(Exception):
    """A program of a contender ended or did not do its work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Say how to start a contender's programs: each command once, in a folder that their logs go to."""

    commands: Sequence[Sequence[str]]
    environment: Mapping[str, str]
    folder: Path


@dataclass(slots=True)
class Fleet:
    """Run the programs of a launch until the block ends."""

    launch: Launch
    _programs: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __enter__(self) -> Self:
        self.launch.folder.mkdir(parents=True, exist_ok=True)
        for number, command in enumerate(self.launch.commands):
            with (self.launch.folder / f"{number}.log").open("ab") as log:
                self._programs.append(
                    subprocess.Popen(
                        command,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=subprocess.STDOUT,
                        env=dict(self.launch.environment),
                        cwd=self.launch.folder,
                        start_new_session=True,
                    )
                )
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes():
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        for program in self._programs:
            program.wait(_KILL_LIMIT_S)

    def check(self) -> None:
        """
        Check that every program still runs.

        Raises:
            FleetError: with the end of the log of the one that ended.

        """
        for number, program in enumerate(self._programs):
            if program.poll() is not None:
                raise FleetError(f"{self.launch.commands[number]} ended with {program.returncode}:\n{self.logs()}")

    def logs(self) -> str:
        """Return the end of what the programs wrote."""
        texts = (path.read_text(errors="replace") for path in sorted(self.launch.folder.glob("*.log")))
        return "\n".join(text[-_SHOWN_CHARACTERS:] for text in texts)

    def cpu_s(self) -> float:
        """Return the processor time all of them took so far, children that ended included."""
        return sum(_cpu_s(process) for process in self._processes())

    def resident_bytes(self) -> int:
        """Return the memory all of them hold, pages they share counted once for each."""
        return sum(_resident_bytes(process) for process in self._processes())

    def _processes(self) -> Iterator[psutil.Process]:
        sessions = {program.pid for program in self._programs}
        for process in psutil.process_iter():
            with suppress(ProcessLookupError, PermissionError):
                if os.getsid(process.pid) in sessions:
                    yield process


def _cpu_s(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system + times.children_user + times.children_system)


def _resident_bytes(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0
