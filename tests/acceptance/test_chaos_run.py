"""A short run under fire on each broker: nothing is lost, nothing happens twice, nothing is stuck."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import rabbit
from tests.support.worker_process import ROOT

SECONDS = 60
VERDICT = re.compile(r"lost 0 duplicated 0 stuck 0 recovered [0-9]+ longest_recovery_s [0-9]+\.[0-9]")
#: Broker, pool, lease, rounds; median and longest recovery; what is allowed; the new worker's start, and what it took.
FIGURES = re.compile(r"\| redis \| prefork \| 2 s \| 1 ( *\| [0-9.]+ s){5} \|")

pytestmark = [pytest.mark.server, pytest.mark.process, pytest.mark.timeout(SECONDS + 300)]


@pytest.mark.parametrize("broker", ["redis", "rabbitmq"])
def test_a_run_under_fire_keeps_every_promise(broker: str, tmp_path: Path) -> None:
    """The run's last line counts no loss, no repeat and nothing stuck, and its exit code says the same."""
    if broker == "rabbitmq":
        rabbit.require()

    run = subprocess.run(
        [sys.executable, "-m", "tests.chaos", f"--seconds={SECONDS}", f"--broker={broker}", f"--directory={tmp_path}"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=SECONDS + 240,
    )

    last = run.stdout.splitlines()[-1]
    sys.stdout.write(f"{broker}: {last}\n")
    assert VERDICT.fullmatch(last), f"{run.stdout[-4000:]}\n{run.stderr[-4000:]}"
    assert run.returncode == 0, run.stdout[-4000:]


def test_a_recovery_is_measured() -> None:
    """The measurement kills the only worker under a hook, has another one do the job once, and prints its figures."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.chaos.recovery", "--rounds=1"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=SECONDS + 240,
    )

    sys.stdout.write(run.stdout)
    assert FIGURES.fullmatch(run.stdout.strip()), run.stderr[-4000:]
