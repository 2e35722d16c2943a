"""`make run`: the stack of the Procfile, kept running until Ctrl-C."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support import ports
from tests.support.demo_run import OBSERVATIONS, ROOT, running_in
from worker.demo import stack

pytestmark = [pytest.mark.process, pytest.mark.server, pytest.mark.timeout(240)]

_LIMIT_S = 120.0


@contextmanager
def stack_of(folder: Path, environment: dict[str, str]) -> Iterator[Callable[[], None]]:
    """Run `make run` as a shell would, and press Ctrl-C at the end; give a check that it goes on, in time."""
    printed = folder / "output.txt"
    with printed.open("wb") as output:
        # The environment is there already, so the first call's install is left out.
        running = subprocess.Popen(
            ["make", "--assume-old=.venv/.installed", "run", f"RAIL_PORT={ports.free_port()}"],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    give_up_at = time.monotonic() + _LIMIT_S

    def goes_on() -> None:
        assert running.poll() is None, printed.read_text()
        assert time.monotonic() < give_up_at, printed.read_text()

    try:
        yield goes_on
    finally:
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGINT)
        running.wait(_LIMIT_S)


def test_stack_runs_until_it_is_interrupted(tmp_path: Path) -> None:
    """The stack settles what is enqueued, its worker is ready, and Ctrl-C leaves no process behind."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("CHIO_", "MAKE", "MFLAGS"))}
    environment = {**own, "CHIO_DATA_DIR": str(tmp_path), "CHIO_FLOWER_PORT": str(ports.free_port())}

    def chio_worker(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            stack.command(*arguments), env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )

    with stack_of(tmp_path, environment) as goes_on:
        while chio_worker("health", "ready").returncode:
            goes_on()
        enqueued = chio_worker("enqueue", "settlement", str(OBSERVATIONS))
        while '"settled": 900' not in chio_worker("status", "--json").stdout:
            goes_on()

    assert enqueued.returncode == 1, "some lines of the example are invalid"
    assert running_in(tmp_path) == []
