"""`chio-worker enqueue settlement` from its arguments to its exit code."""

import json
from pathlib import Path

import pytest
import structlog

from reliability.errors import StorageUnavailableError
from tests.support.cli import CommandLine, command_line
from tests.support.observations import observation


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """Return a command line on stores in memory."""
    return command_line(monkeypatch, capsys)


def text_of(*receipts: str) -> bytes:
    """Return one observation a line."""
    return b"".join(observation(receipt_id=receipt).canonical_json() + b"\n" for receipt in receipts)


def test_file_is_admitted_and_announced(line: CommandLine, tmp_path: Path) -> None:
    """Every line of a file is admitted, a message with its id and attempt is published, and the exit code is 0."""
    file = tmp_path / "two.jsonl"
    file.write_bytes(text_of("a", "b"))

    answer = line.run("enqueue", "settlement", str(file), "--json")

    assert answer.code == 0
    assert answer.document | {"size_bytes": 0} == {
        "lines": 2,
        "size_bytes": 0,
        "admitted": 2,
        "duplicates": 0,
        "conflicts": 0,
        "invalid": 0,
        "problems": [],
        "problems_omitted": 0,
    }
    assert line.published("settlement") == [{"jobs": [["a", 0], ["b", 0]], "ordered": True}]


def test_standard_input_is_read(line: CommandLine) -> None:
    """A dash reads standard input."""
    answer = line.run("enqueue", "settlement", "-", stdin=text_of("a"))

    assert answer.code == 0
    assert line.storage.jobs.get("a") is not None


def test_refused_lines_are_named_and_cost_no_other(line: CommandLine) -> None:
    """Refused lines stand on standard error with number and reason, the others are admitted, the exit code is 1."""
    stdin = text_of("a") + b"{broken\n" + text_of("b")

    answer = line.run("enqueue", "settlement", "-", stdin=stdin)

    assert answer.code == 1
    assert answer.err.startswith("line 2: invalid: json:")
    assert line.storage.jobs.get("b") is not None


def test_refused_lines_stand_in_the_document(line: CommandLine) -> None:
    """With --json the problems are part of the document and standard error stays empty."""
    answer = line.run("enqueue", "settlement", "-", "--json", stdin=b"{broken\n")

    problems = answer.document["problems"]
    assert isinstance(problems, list)
    assert (answer.code, answer.err) == (1, "")
    assert [(problem["line"], problem["refusal"]) for problem in problems] == [(1, "invalid")]


def test_conflict_is_refused_and_named(line: CommandLine) -> None:
    """A known receipt with other content is a conflict: the line is named, nothing is changed, the exit code is 1."""
    line.run("enqueue", "settlement", "-", stdin=text_of("a"))
    other = observation(receipt_id="a", tool_name="other").canonical_json()

    answer = line.run("enqueue", "settlement", "-", stdin=other)

    assert answer.code == 1
    assert "line 1: conflict: job 'a'" in answer.err


def test_same_file_twice_is_fine(line: CommandLine) -> None:
    """Enqueueing the same lines again counts duplicates, publishes nothing, and ends with 0."""
    line.run("enqueue", "settlement", "-", stdin=text_of("a"))
    line.published("settlement")

    answer = line.run("enqueue", "settlement", "-", "--json", stdin=text_of("a"))

    assert (answer.code, answer.document["duplicates"]) == (0, 1)
    assert line.published("settlement") == []


def test_empty_input_is_an_error(line: CommandLine) -> None:
    """An input without a line ends with 2 and says what was expected."""
    answer = line.run("enqueue", "settlement", "-")

    assert answer.code == 2
    assert "the input has no line" in answer.err


def test_missing_file_is_named(line: CommandLine, tmp_path: Path) -> None:
    """A file that is not there ends with 2 and is named."""
    answer = line.run("enqueue", "settlement", str(tmp_path / "missing.jsonl"))

    assert answer.code == 2
    assert "missing.jsonl" in answer.err
    assert "No such file" in answer.err


def test_directory_is_no_file(line: CommandLine, tmp_path: Path) -> None:
    """A directory in a file's place ends with 2 and no traceback."""
    answer = line.run("enqueue", "settlement", str(tmp_path))

    assert answer.code == 2
    assert "Traceback" not in answer.err


def test_megabyte_line_costs_only_itself(line: CommandLine) -> None:
    """A line of 1 MB is refused with its size, the next one is admitted."""
    answer = line.run("enqueue", "settlement", "-", stdin=b"x" * 1_000_000 + b"\n" + text_of("a"))

    assert answer.code == 1
    assert "1000001" in answer.err
    assert line.storage.jobs.get("a") is not None


def test_listed_problems_are_bounded(line: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The document lists so many problems and counts the rest."""
    monkeypatch.setattr("worker.cli.enqueue.MAX_LISTED_PROBLEMS", 2)

    answer = line.run("enqueue", "settlement", "-", "--json", stdin=b"{\n" * 5)

    problems = answer.document["problems"]
    assert isinstance(problems, list)
    assert (len(problems), answer.document["problems_omitted"], answer.document["invalid"]) == (2, 3, 5)


def test_unreachable_store_says_what_is_taken_in(line: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that stops answering ends with 2, and says how many lines are in and that the input may be sent again."""

    def unreachable(*_: object) -> object:
        raise StorageUnavailableError(operation="admit_many", key="jobs")

    monkeypatch.setattr(line.storage.jobs, "admit_many", unreachable)

    answer = line.run("enqueue", "settlement", "-", stdin=text_of("a"))

    assert answer.code == 2
    assert "0 lines are taken in" in answer.err
    assert "the store did not answer" in answer.err
    assert "Traceback" not in answer.err


def test_lost_announcement_is_no_refusal(line: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that takes no message refuses no line: the row is due, and the exit code is 0."""

    def broken(*_: object, **__: object) -> object:
        raise OSError("no broker")

    monkeypatch.setattr(line.app, "send_task", broken)

    with structlog.testing.capture_logs():
        answer = line.run("enqueue", "settlement", "-", "--json", stdin=text_of("a"))

    assert (answer.code, answer.document["admitted"]) == (0, 1)
    assert line.storage.jobs.get("a") is not None


def test_document_is_one_line(line: CommandLine) -> None:
    """The document of --json is one line, so that lines of many runs can be kept in one file."""
    answer = line.run("enqueue", "settlement", "-", "--json", stdin=text_of("a"))

    assert answer.out.count("\n") == 1
    assert json.loads(answer.out)
