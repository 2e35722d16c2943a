"""`chio-worker jobs`."""

import pytest

from storage.jobs import JobState
from tests.support import builders
from tests.support.cli import CommandLine, command_line


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """Return a command line on stores in memory with one job that waits and one that runs."""
    found = command_line(monkeypatch, capsys)
    found.storage.jobs.admit(builders.job("waiting"))
    builders.admitted_and_claimed(found.storage.jobs, builders.job("running"))
    return found


def state_of(line: CommandLine, job_id: str) -> JobState:
    """Return where the job is."""
    row = line.storage.jobs.get(job_id)
    assert row is not None
    return row.state


def test_show_tells_where_a_job_is_and_no_payload(line: CommandLine) -> None:
    """The document has state, attempt, owner and readable instants, the digest of the payload, and no token."""
    answer = line.run("jobs", "show", "running", "--json")

    assert answer.document["state"] == "leased"
    assert answer.document["owner"] == "worker-1"
    assert str(answer.document["admitted_at"]).startswith("2023-11-14T22:13:20.000")
    assert answer.document["payload_sha256"] == builders.job().digest.hex()
    assert "token-" not in answer.out


def test_show_is_readable(line: CommandLine) -> None:
    """A person reads the same facts, a line each."""
    answer = line.run("jobs", "show", "waiting")

    assert answer.code == 0
    assert "outstanding" in answer.out


def test_list_takes_one_state(line: CommandLine) -> None:
    """Only the jobs of the state are listed."""
    answer = line.run("jobs", "list", "leased")

    assert "running" in answer.out
    assert "waiting" not in answer.out


def test_unknown_state_names_the_states(line: CommandLine) -> None:
    """A state that does not exist ends with 2 and the names of those that do."""
    answer = line.run("jobs", "list", "sleeping")

    assert answer.code == 2
    assert "outstanding, leased, parked, awaiting, held" in answer.err


def test_hold_and_release(line: CommandLine) -> None:
    """A held job waits until it is released, and then is due without a message."""
    held = line.run("jobs", "hold", "waiting", "--json")
    state_when_held = state_of(line, "waiting")
    released = line.run("jobs", "release", "waiting", "--json")

    assert (held.document, state_when_held) == ({"job_id": "waiting", "held": True}, JobState.HELD)
    assert (released.document, state_of(line, "waiting")) == ({"job_id": "waiting", "released": True}, JobState.PARKED)


def test_cancel_ends_a_job(line: CommandLine) -> None:
    """A cancelled job is gone."""
    answer = line.run("jobs", "cancel", "waiting", "--yes")

    assert answer.code == 0
    assert line.storage.jobs.get("waiting") is None


def test_running_attempt_is_not_cancelled(line: CommandLine) -> None:
    """A job whose attempt runs is not cancelled: exit code 1 and the command to look with."""
    answer = line.run("jobs", "cancel", "running", "--yes")

    assert answer.code == 1
    assert "chio-worker jobs show running" in answer.err
    assert state_of(line, "running") is JobState.LEASED


@pytest.mark.parametrize(
    "arguments", [("show", "unknown"), ("hold", "unknown"), ("release", "waiting"), ("cancel", "unknown", "--yes")]
)
def test_nothing_by_that_id_ends_with_one(line: CommandLine, arguments: tuple[str, ...]) -> None:
    """What is not there, or not held, ends with 1, a sentence and a next command."""
    answer = line.run("jobs", *arguments)

    assert answer.code == 1
    assert "look with: chio-worker" in answer.err


def test_cancel_asks_first(line: CommandLine) -> None:
    """Without --yes and without a terminal nothing is cancelled."""
    answer = line.run("jobs", "cancel", "waiting")

    assert answer.code == 2
    assert state_of(line, "waiting") is JobState.OUTSTANDING
