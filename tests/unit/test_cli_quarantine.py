"""`chio-worker quarantine`."""

import json
from pathlib import Path

import pytest

from tests.support.cli import CommandLine, command_line

MESSAGE = json.dumps(
    {
        "body": json.dumps([[], {"job_id": "a", "attempt": 0}, {}]),
        "headers": {"task": "chio.settle.observe"},
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "properties": {},
    }
).encode()


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """Return a command line on stores in memory with a readable message (1) and garbage (2) in quarantine."""
    found = command_line(monkeypatch, capsys)
    found.storage.quarantine.keep(MESSAGE, "settlement", "missing_id")
    found.storage.quarantine.keep(b"\xffgarbage", "settlement", "broken_envelope")
    return found


def test_list_shows_reasons_and_no_bytes(line: CommandLine) -> None:
    """Entries are listed oldest first with queue, reason, size and digest, without their bytes."""
    answer = line.run("quarantine", "list", "--json")

    entries = answer.document["entries"]
    assert isinstance(entries, list)
    assert [(entry["entry_id"], entry["reason"]) for entry in entries] == [
        ("1", "missing_id"),
        ("2", "broken_envelope"),
    ]
    assert "garbage" not in answer.out


def test_show_describes_one(line: CommandLine) -> None:
    """One entry is described by itself."""
    answer = line.run("quarantine", "show", "2")

    assert answer.code == 0
    assert "broken_envelope" in answer.out


def test_export_writes_the_bytes_as_they_came(line: CommandLine, tmp_path: Path) -> None:
    """The exported file holds exactly the bytes, and the message stays."""
    target = tmp_path / "message"

    answer = line.run("quarantine", "export", "2", "--output", str(target))

    assert answer.code == 0
    assert target.read_bytes() == b"\xffgarbage"
    assert line.storage.quarantine.get("2") is not None


def test_export_overwrites_nothing(line: CommandLine, tmp_path: Path) -> None:
    """A file that is there already is kept, and the exit code is 2."""
    target = tmp_path / "message"
    target.write_bytes(b"mine")

    answer = line.run("quarantine", "export", "2", "--output", str(target))

    assert answer.code == 2
    assert target.read_bytes() == b"mine"


def test_requeue_publishes_and_forgets(line: CommandLine) -> None:
    """A requeued message is on its queue again and out of the quarantine."""
    answer = line.run("quarantine", "requeue", "1", "--yes", "--json")

    assert answer.document == {"entry_id": "1", "queue": "settlement"}
    assert line.published("settlement") == [{"job_id": "a", "attempt": 0}]
    assert line.storage.quarantine.get("1") is None


def test_garbage_is_not_requeued(line: CommandLine) -> None:
    """Bytes that are no message stay where they are: exit code 2 and what to do instead."""
    answer = line.run("quarantine", "requeue", "2", "--yes")

    assert answer.code == 2
    assert "export" in answer.err
    assert line.storage.quarantine.get("2") is not None


def test_broken_broker_keeps_the_message(line: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the broker does not take it, the message stays in the quarantine and the exit code is 2."""

    def broken(*_: object, **__: object) -> object:
        raise OSError("no broker")

    monkeypatch.setattr(line.app, "producer_or_acquire", broken)

    answer = line.run("quarantine", "requeue", "1", "--yes")

    assert answer.code == 2
    assert "Traceback" not in answer.err
    assert line.storage.quarantine.get("1") is not None


def test_purge_removes_one_or_all(line: CommandLine) -> None:
    """With an id one message goes, without it all of them."""
    one = line.run("quarantine", "purge", "1", "--yes", "--json")
    rest = line.run("quarantine", "purge", "--yes", "--json")

    assert (one.document, rest.document) == ({"removed": 1}, {"removed": 1})
    assert line.storage.quarantine.counts().entries == 0


@pytest.mark.parametrize("verb", ["requeue", "purge"])
def test_nothing_final_without_an_answer(line: CommandLine, verb: str) -> None:
    """Where nobody can be asked, --yes is needed and nothing is changed."""
    answer = line.run("quarantine", verb, "1")

    assert answer.code == 2
    assert line.storage.quarantine.get("1") is not None


@pytest.mark.parametrize(
    "arguments", [("show", "9"), ("requeue", "9", "--yes"), ("purge", "9", "--yes"), ("export", "9", "-o", "unused")]
)
def test_unknown_entry_ends_with_one(line: CommandLine, arguments: tuple[str, ...]) -> None:
    """An id that is not there ends with 1 and the command that lists those that are."""
    answer = line.run("quarantine", *arguments)

    assert answer.code == 1
    assert "chio-worker quarantine list" in answer.err
    assert not Path("unused").exists()
