"""The demo, run as a person runs it: real server, rail, worker, beat and Flower, with and without faults."""

import re
import signal
from pathlib import Path

import pytest

from tests.support.demo_run import OBSERVATIONS, DemoRun, example_observations

pytestmark = [pytest.mark.process, pytest.mark.server, pytest.mark.timeout(240)]

#: What must come out of the example files, whatever happens on the way.
SUMMARY = [
    "927 admitted + 60 duplicate + 1 conflict + 12 invalid = 1000 lines of the file",
    "the ledger admitted 927 of 927",
    "900 settled + 0 skipped + 27 dead = 927 admitted, 0 in flight",
    "27 dead letters are stored for 27 dead jobs",
    "900 receipts that are not dead had an effect on the rail, 900 are settled",
    "0 receipts had more than one effect on the rail",
    "0 receipts reached the rail with two different bodies",
    "90 admitted + 5 duplicate + 1 conflict + 4 invalid = 100 lines of the file",
    "the ledger admitted 90 of 90",
    "84 confirmed + 6 dead = 90 admitted, 0 in flight",
    "6 dead letters are stored for 6 dead deliveries",
    "84 deliveries that are not dead took effect at their partner, 84 are confirmed",
    "0 deliveries took effect more than once",
    "0 deliveries reached a partner with two different bodies",
    "lantern confirms late: 24 deliveries are confirmed by 24 receipts",
    "ember never confirms: 6 deliveries were escalated and are dead letters",
    "harbour was down: its circuit opened, its deliveries waited, and it is closed again",
    "0 waits spent an attempt",
]


def summary_of(output: str) -> list[str]:
    """Return the sentences of the checks that held."""
    return re.findall(r"^  ok +(.+?) *$", output, flags=re.MULTILINE)


def test_demo_accounts_for_every_line(tmp_path: Path) -> None:
    """The demo ends with 0, its numbers add up, incident and dead letters are shown, and no process is left."""
    with DemoRun(tmp_path) as demo:
        exit_code = demo.wait()

    assert exit_code == 0, demo.output
    assert summary_of(demo.output) == SUMMARY
    assert "Dead letters, 3 of 33" in demo.output
    assert "incident.opened: harbour" in demo.output
    assert "incident.closed: harbour" in demo.output
    assert re.search(r"harbour's circuit opened [1-9]\d* times: \d+ deliveries waited [1-9]\d* times", demo.output)
    assert "Flower shows the tasks at http://127.0.0.1:" in demo.output
    assert demo.running() == []
    assert list((tmp_path / ".chio" / "demo").iterdir()) == []


def test_killed_worker_changes_nothing(tmp_path: Path) -> None:
    """A worker killed with SIGKILL in mid-run and replaced by another ends in the same summary."""
    with DemoRun(tmp_path, "--kill-worker-after", "200") as demo:
        exit_code = demo.wait()

    assert "killed with SIGKILL" in demo.output
    assert (exit_code, summary_of(demo.output)) == (0, SUMMARY), demo.output
    assert demo.running() == []


def test_deleted_broker_keys_change_nothing(tmp_path: Path) -> None:
    """Deleting every key of the broker in mid-run ends in the same summary."""
    with DemoRun(tmp_path, "--delete-broker-keys-after", "300") as demo:
        exit_code = demo.wait()

    deleted = re.search(r"(\d+) keys of the broker were deleted", demo.output)
    assert deleted, demo.output
    assert int(deleted[1]) > 0
    assert (exit_code, summary_of(demo.output)) == (0, SUMMARY), demo.output
    assert demo.running() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_demo_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C or SIGTERM in mid-run ends every program and removes the folder."""
    with DemoRun(tmp_path) as demo:
        demo.wait_until(lambda: re.search(r"settled [1-9]", demo.output))
        started = demo.running()

        exit_code = demo.interrupt(number)

    assert len(started) >= 7, started
    assert exit_code != 0
    assert demo.running() == []
    assert list((tmp_path / ".chio" / "demo").iterdir()) == []


def test_failed_program_is_named(tmp_path: Path) -> None:
    """A stack that cannot start ends with 1, names the program and its reason, and keeps its folder."""
    script = tmp_path / "script.json"
    script.write_text('{"surprise": 1}')

    with DemoRun(tmp_path, "--rail-script", str(script)) as demo:
        exit_code = demo.wait()

    assert exit_code == 1
    assert "rail ended by itself with code 2" in demo.output
    assert "surprise" in demo.output
    assert demo.running() == []
    assert len(list((tmp_path / ".chio" / "demo").iterdir())) == 1


def test_example_file_says_what_it_holds() -> None:
    """The example has 1,000 lines, several tenants and tools, and the duplicates the summary counts."""
    found = list(example_observations())

    assert len(OBSERVATIONS.read_bytes().splitlines()) == 1000
    assert len({observation.tenant_id for observation in found}) > 3
    assert len({observation.tool_name for observation in found}) > 10
    assert len(found) - len({observation.receipt_id for observation in found}) >= 60
