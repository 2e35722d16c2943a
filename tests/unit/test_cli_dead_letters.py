"""`chio-worker dead-letters`."""

import pytest

from storage.jobs import Bury
from tests.support import builders
from tests.support.cli import CommandLine, command_line


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """Return a command line on stores in memory with two dead jobs, the later one buried first."""
    found = command_line(monkeypatch, capsys)
    for receipt, finalized_at in (("late", 20), ("early", 10)):
        claim = builders.admitted_and_claimed(found.storage.jobs, builders.job(receipt, finalized_at=finalized_at))
        found.storage.jobs.record(claim, Bury(record=builders.dead_letter(receipt, finalized_at=finalized_at)))
    return found


def test_list_is_in_order(line: CommandLine) -> None:
    """Dead letters are listed by the time their receipts were finalised, with how many there are."""
    document = line.run("dead-letters", "list", "--json").document

    records = document["records"]
    assert isinstance(records, list)
    assert [record["receipt_id"] for record in records] == ["early", "late"]
    assert document["stored"] == 2


def test_list_is_cut_where_asked(line: CommandLine) -> None:
    """Limit and offset take a part, and the title says of how many."""
    answer = line.run("dead-letters", "list", "--limit", "1", "--offset", "1")

    assert "Dead letters, 1 of 2" in answer.out
    assert "late" in answer.out
    assert "early" not in answer.out


def test_show_prints_the_canonical_bytes(line: CommandLine) -> None:
    """With --json the record is printed as it was published, byte for byte."""
    answer = line.run("dead-letters", "show", "early", "--json")

    assert answer.out == builders.dead_letter("early", finalized_at=10).canonical_json().decode() + "\n"


def test_show_says_whether_it_can_be_replayed(line: CommandLine) -> None:
    """A person reads code, digest and whether the payload is kept; never the payload."""
    answer = line.run("dead-letters", "show", "early")

    assert "rpc" in answer.out
    assert builders.reason().detail_sha256.hex() in answer.out
    assert "can be replayed" in answer.out


@pytest.mark.parametrize(
    "arguments", [("show", "unknown"), ("replay", "unknown", "--yes"), ("clear", "unknown", "--yes")]
)
def test_unknown_receipt_ends_with_one(line: CommandLine, arguments: tuple[str, ...]) -> None:
    """A receipt without a dead letter ends with 1 and a sentence that says where to look."""
    answer = line.run("dead-letters", *arguments)

    assert answer.code == 1
    assert "'unknown'" in answer.err
    assert "chio-worker dead-letters list" in answer.err


def test_replay_runs_the_job_again(line: CommandLine) -> None:
    """A replayed job is in flight at attempt 0 under the same id, its message is published, its dead letter gone."""
    answer = line.run("dead-letters", "replay", "early", "--yes", "--json")

    row = line.storage.jobs.get("early")
    assert (answer.code, answer.document) == (0, {"receipt_id": "early", "replayed": True})
    assert row is not None
    assert row.attempt == 0
    assert line.published("settlement") == [{"job_id": "early", "attempt": 0}]
    assert line.storage.dead_letters.get("early") is None


def test_replay_without_a_broker_is_done_all_the_same(line: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the message cannot be published, the job is due, the exit code 0, and a note says that it runs later."""

    def broken(*_: object, **__: object) -> object:
        raise OSError("no broker")

    monkeypatch.setattr(line.app, "send_task", broken)

    answer = line.run("dead-letters", "replay", "early", "--yes")

    assert answer.code == 0
    assert "published later" in answer.err
    assert line.storage.jobs.get("early") is not None


def test_clear_removes_record_and_payload(line: CommandLine) -> None:
    """A cleared dead letter is gone with its payload, and the other one stays."""
    answer = line.run("dead-letters", "clear", "early", "--yes")

    assert answer.code == 0
    assert line.storage.dead_letters.get("early") is None
    assert line.storage.dead_letters.payload("early") is None
    assert line.storage.dead_letters.count() == 1


@pytest.mark.parametrize("verb", ["replay", "clear"])
def test_nothing_final_without_an_answer(line: CommandLine, verb: str) -> None:
    """Where nobody can be asked, --yes is needed: exit code 2, a sentence that names it, and nothing is changed."""
    answer = line.run("dead-letters", verb, "early")

    assert answer.code == 2
    assert "--yes" in answer.err
    assert line.storage.dead_letters.get("early") is not None


def test_brackets_in_an_id_are_no_markup(line: CommandLine) -> None:
    """An id that looks like markup is printed as it is."""
    line.storage.dead_letters.append(builders.dead_letter("[red]id[/red]"))

    assert "[red]id[/red]" in line.run("dead-letters", "list").out
