"""The demo's child processes: none is left, whatever they did."""

import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from reliability.errors import ChioError
from worker.demo import stack
from worker.demo.processes import Child, Processes

pytestmark = pytest.mark.process

#: Starts a child that leaves the process group and ignores SIGTERM, as a hanging pool process would.
STUBBORN = """
import os, signal, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import os, signal, time; os.setpgid(0, 0);"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN); print('child', flush=True); time.sleep(600)"])
print("pid", child.pid, flush=True)
time.sleep(600)
"""


def started(processes: Processes, script: str, says: str) -> Child:
    """Start a script and wait until it has said something."""
    child = processes.start("script", [sys.executable, "-c", script])
    processes.wait_until(lambda: says in child.written(), "the script speaks", 30)
    return child


def test_grandchild_in_another_group_is_ended(tmp_path: Path) -> None:
    """What a program started is ended with it, even if it left the group and ignores SIGTERM."""
    with Processes(tmp_path, os.environ) as processes:
        child = started(processes, STUBBORN, "child")
        grandchild = int(child.written().partition("pid ")[2].split()[0])
        assert psutil.pid_exists(grandchild)

    assert not psutil.pid_exists(grandchild)


def test_kill_ends_everything_at_once(tmp_path: Path) -> None:
    """A killed program takes what it started with it and is not missed afterwards."""
    with Processes(tmp_path, os.environ) as processes:
        child = started(processes, STUBBORN, "child")
        grandchild = int(child.written().partition("pid ")[2].split()[0])

        processes.kill(child)

        assert not psutil.pid_exists(grandchild)
        processes.check()


def test_program_that_ends_by_itself_is_named(tmp_path: Path) -> None:
    """Waiting ends at once when a program fails, with its name, its code and its last words."""
    with Processes(tmp_path, os.environ) as processes:
        processes.start("unlucky", [sys.executable, "-c", "print('no luck'); raise SystemExit(3)"])

        with pytest.raises(ChioError, match=r"(?s)unlucky ended by itself with code 3.*no luck"):
            processes.wait_until(lambda: False, "luck", 30)


def test_program_that_was_to_end_is_taken_out(tmp_path: Path) -> None:
    """A program that ends with a fine code is finished; the check does not miss it."""
    with Processes(tmp_path, os.environ) as processes:
        child = processes.start("short", [sys.executable, "-c", "raise SystemExit(1)"])
        while not processes.finished(child, frozenset({0, 1})):
            os.sched_yield()

        processes.check()


def test_callers_settings_do_not_reach_the_demo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A CHIO_ variable of the caller, such as the address of a real server, is not handed on."""
    monkeypatch.setenv("CHIO_REDIS_URL", "redis://real.example")

    environment = stack.environment_in(tmp_path)

    assert "CHIO_REDIS_URL" not in environment
    assert environment["CHIO_DATA_DIR"] == str(tmp_path)


def test_signals_mean_afterwards_what_they_meant_before(tmp_path: Path) -> None:
    """Handlers of Ctrl-C and SIGTERM are those of the caller again."""
    before = (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))

    with Processes(tmp_path, os.environ):
        pass

    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
