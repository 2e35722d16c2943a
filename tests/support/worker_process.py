"""
A real worker for tests: `celery -A worker.app worker` in its own process group, with its own directory and log.

Settings are given as environment variables; nothing of the caller's `CHIO_` environment reaches it. Whatever a test
forgets to end is ended when the interpreter exits.
"""

import atexit
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

import psutil

from worker import health

#: The checkout: what `celery -A worker.app` is found in.
ROOT: Final = Path(__file__).parents[2]
_READY_LIMIT_S: Final = 90.0
_KILL_LIMIT_S: Final = 20.0
#: How long a server takes at most to answer what a process had sent before it was stopped, in seconds.
_ANSWERED_S: Final = 0.1
_POLL_S: Final = 0.02

#: Short times, so that tests wait for what happens and not for defaults.
QUICK: Final = {
    "CHIO_SETTLEMENT_HOOK": "tasks.hooks.noop:NoopSettlementHook",
    "CHIO_CONCURRENCY": "2",
    "CHIO_PUMP_PERIOD_MS": "100",
    "CHIO_MARK_PERIOD_MS": "200",
    "CHIO_LOST_MESSAGE_SLACK_MS": "300",
    "CHIO_LEASE_MS": "3000",
    "CHIO_REDIS_TIMEOUT_S": "1",
    "CHIO_CONNECT_TIMEOUT_S": "1",
    "CHIO_BROKER_TIMEOUT_S": "2",
    "CHIO_LOG_FORMAT": "json",
}


def poll(condition: Callable[[], bool], limit_s: float, what: str) -> None:
    """Wait until the condition holds; fails after the limit, saying what was waited for."""
    give_up_at = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < give_up_at, f"waited {limit_s} s for {what}"
        time.sleep(_POLL_S)


class CelerySubprocess:
    """Run one `celery -A worker.app ...` command; usable as a context manager."""

    def __init__(self, directory: Path, environ: Mapping[str, str], *arguments: str) -> None:
        self.directory = directory
        self._environ = clean_environ(directory, environ)
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.kill)

    @property
    def log(self) -> Path:
        """Return the file with everything it wrote."""
        return self.directory / f"{self._arguments[0]}.log"

    @property
    def pid(self) -> int:
        """Return the id of the main process; fails when it was never started."""
        assert self._process is not None, "expected a started process, call start() first"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Tell whether the main process lives."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start it without waiting."""
        assert not self.is_running, "expected a process that is down, this one runs already"
        self.directory.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "celery", "-A", "worker.app", *self._arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environ,
                cwd=self.directory,
                start_new_session=True,
            )
        return self

    def log_text(self) -> str:
        """Return everything it wrote."""
        return self.log.read_text(errors="replace")

    def children(self) -> list[int]:
        """Return the ids of its pool processes, none when it is gone."""
        try:
            return [int(pid) for pid in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()]
        except (FileNotFoundError, ProcessLookupError):
            return []

    def terminate(self) -> None:
        """Ask it to end, as an orchestrator does: the main process alone."""
        self._signal(signal.SIGTERM)

    def terminate_group(self) -> None:
        """Ask it to end, as a terminal or a process manager does: the whole group."""
        os.killpg(self.pid, signal.SIGTERM)

    def wait(self, limit_s: float) -> int:
        """Wait for it to end and return its exit code."""
        assert self._process is not None, "expected a started process, call start() first"
        try:
            return self._process.wait(limit_s)
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"still running after {limit_s} s:\n{self.log_text()[-2000:]}") from error

    def kill(self) -> None:
        """End it with SIGKILL, as a crash would; does nothing when it is down."""
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def kill_main(self) -> None:
        """End the main process alone with SIGKILL: pool processes may finish what they run."""
        self._signal(signal.SIGKILL)
        self.wait(_KILL_LIMIT_S)

    def kill_session(self) -> None:
        """End it and everything it started with SIGKILL, as the end of its machine would."""
        self._signal_session(signal.SIGKILL)
        self.wait(_KILL_LIMIT_S)

    def kill_session_when(self, condition: Callable[[], bool], limit_s: float, what: str) -> None:
        """End it as `kill_session` does at an instant at which the condition holds: it stands still for each look."""

        def holds() -> bool:
            if not condition():
                return False
            self._signal_session(signal.SIGSTOP)
            # What it had sent by then may be answered first.
            time.sleep(_ANSWERED_S)
            if condition():
                return True
            self._signal_session(signal.SIGCONT)
            return False

        poll(holds, limit_s, what)
        self.kill_session()

    def _signal_session(self, number: signal.Signals) -> None:
        members = [pid for pid in psutil.pids() if _session_of(pid) == self.pid]
        for pid in members:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None, "expected a started process, call start() first"
        # Does nothing once the process has ended: another one may have its id by then.
        self._process.send_signal(number)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()


class WorkerProcess(CelerySubprocess):
    """Run one worker; as a context manager it is ready when the block begins."""

    def __init__(
        self, directory: Path, redis_url: str, *, environ: Mapping[str, str] | None = None, options: Sequence[str] = ()
    ) -> None:
        self.data_dir = directory / ".chio"
        given = {**QUICK, "CHIO_REDIS_URL": redis_url, **(environ or {})}
        super().__init__(directory, given, "worker", "--without-gossip", "--without-mingle", *options)

    def health(self) -> health.WorkerHealth | None:
        """Return what the worker last told of itself."""
        return next(iter(health.read(self.data_dir)), None)

    def wait_until_ready(self) -> Self:
        """Wait until it consumes; fails with the end of its log when it ends before."""
        poll(self._is_ready_or_ended, _READY_LIMIT_S, "the worker to be ready")
        assert self.is_running, f"the worker ended while starting; its log ends with:\n{self.log_text()[-3000:]}"
        return self

    def _is_ready_or_ended(self) -> bool:
        found = self.health()
        return not self.is_running or (found is not None and found.consuming and found.ledger_reached_at_ms > 0)

    def __enter__(self) -> Self:
        return self.start().wait_until_ready()


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return None


def clean_environ(directory: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment with these settings and none of the caller's; the data directory is below `directory`."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("CHIO_", "CELERY_"))}
    paths = os.pathsep.join([str(ROOT), *filter(None, [inherited.get("PYTHONPATH")])])
    return {**inherited, "PYTHONPATH": paths, "CHIO_DATA_DIR": str(directory / ".chio"), **environ}
