"""`chio-worker enqueue receipts` from its arguments to its exit code."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from reliability.errors import StorageUnavailableError
from reliability.receipt import Verdict
from storage.jobs import Await, FinishedAs, JobKind
from tests.support import builders, partner_file
from tests.support.cli import Answer, CommandLine, command_line
from tests.support.delivering import PARTNERS, delivering_line
from worker.simulators.partner_receipts import signed_receipt

AT = datetime(2026, 3, 1, tzinfo=UTC)
TRUSTING = """
[partners.trusting]
url = "https://hooks.trusting.example/"
secrets = ["env:ACME_SECRET"]
receipts_signed = false
"""


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> CommandLine:
    """Return a command line on stores in memory with a partner file."""
    return delivering_line(monkeypatch, capsys, tmp_path, PARTNERS + TRUSTING)


def signed(partner_id: str = "acme", secret: str = partner_file.SECRET, verdict: Verdict = Verdict.CONFIRMED) -> bytes:
    """Return a receipt as a partner signs it, as a line of a file."""
    return signed_receipt(verdict, partner_id, "msg_1", secret, AT).to_json().encode() + b"\n"


def plain(partner_id: str, **changes: object) -> bytes:
    """Return an unsigned receipt as a line of a file."""
    facts = {"schema": "chio.deliver.receipt.v1", "partner_id": partner_id, "message_id": "m", "verdict": "failed"}
    return json.dumps({**facts, **changes}).encode() + b"\n"


def awaiting(line: CommandLine, partner_id: str = "acme", message_id: str = "msg_1") -> str:
    """Let a delivery wait for its receipt; return its job id."""
    job = builders.delivery_job(partner_id, message_id)
    claim = builders.admitted_and_claimed(line.storage.jobs, job)
    line.storage.jobs.record(claim, Await(request=builders.pending(message_id, partner_id)))
    return job.job_id


def counted(answer: Answer) -> dict[str, object]:
    """Return the counts of a document that are not zero."""
    counts = {name: count for name, count in answer.document.items() if type(count) is int and count}
    return {name: count for name, count in counts.items() if name not in {"size_bytes", "lines"}}


def test_believed_receipts_end_their_jobs(line: CommandLine, tmp_path: Path) -> None:
    """A signed one, one of a partner that need not sign, and one of a settlement: ledger and entry end together."""
    jobs = [awaiting(line), awaiting(line, "trusting", "m")]
    settlement = builders.admitted_and_claimed(line.storage.jobs, builders.job("m"))
    file = tmp_path / "receipts.jsonl"
    file.write_bytes(signed() + plain("trusting", detail="refused") + plain("settlement", verdict="confirmed"))

    answer = line.run("enqueue", "receipts", str(file), "--json")

    assert answer.code == 0
    assert answer.document | {"size_bytes": 0} == {
        "lines": 3,
        "size_bytes": 0,
        "resolved": 3,
        "repeated": 0,
        "conflicting": 0,
        "unknown": 0,
        "invalid": 0,
        "problems": [],
        "problems_omitted": 0,
    }
    assert [line.storage.jobs.get(job) for job in (*jobs, settlement.job_id)] == [None, None, None]
    assert line.storage.jobs.counts(JobKind.DELIVERY).finished[FinishedAs.CONFIRMED] == 1
    assert line.storage.jobs.counts(JobKind.SETTLEMENT).finished[FinishedAs.SETTLED] == 1
    assert line.storage.dead_letters.get(jobs[1]) is not None
    assert sum(line.storage.reconciliation.counts().values()) == 0


def test_no_message_is_sent(line: CommandLine) -> None:
    """A receipt depends on no broker, which might lose it."""
    awaiting(line)

    line.run("enqueue", "receipts", "-", stdin=signed())

    assert line.published("delivery") == []


def test_the_same_receipt_again_changes_nothing(line: CommandLine) -> None:
    """It counts as repeated, and the exit code is 0."""
    awaiting(line)
    line.run("enqueue", "receipts", "-", stdin=signed())

    answer = line.run("enqueue", "receipts", "-", "--json", stdin=signed() + signed())

    assert (answer.code, counted(answer)) == (0, {"repeated": 2})


def test_a_receipt_that_disagrees_is_kept(line: CommandLine) -> None:
    """The job stays as it ended, the receipt is in quarantine, and the exit code is 1."""
    awaiting(line)
    line.run("enqueue", "receipts", "-", stdin=signed())

    answer = line.run("enqueue", "receipts", "-", "--json", stdin=signed(verdict=Verdict.FAILED))

    kept = line.storage.quarantine.list(10)
    assert (answer.code, counted(answer)) == (1, {"conflicting": 1})
    assert [entry.reason for entry in kept] == ["invalid_message:receipt_conflicting"]
    assert line.storage.dead_letters.count() == 0


def test_a_receipt_of_nothing_that_was_sent_is_kept(line: CommandLine) -> None:
    """It is named, kept in quarantine, and can be sent to the workers from there."""
    answer = line.run("enqueue", "receipts", "-", stdin=signed())
    entry = line.storage.quarantine.list(10)[0]
    again = line.run("quarantine", "requeue", entry.entry_id, "--yes")

    assert answer.code == 1
    assert "line 1: unknown: delivery:acme:msg_1 is no job that was sent" in answer.err
    assert (entry.reason, entry.queue) == ("invalid_message:receipt_unknown", "delivery")
    assert again.code == 0
    assert [list(message) for message in line.published("delivery")] == [["signed"]]


@pytest.mark.parametrize(
    "refused,sentence",
    [
        (signed(secret=partner_file.NEXT_SECRET), "expected the signature of a known partner"),
        (signed(partner_id="nobody"), "expected the signature of a known partner"),
        (plain("acme"), "the partner's receipts must be signed"),
        (plain("nobody"), "the partner's receipts must be signed"),
        (plain("trusting", verdict="maybe"), "verdict"),
        (plain("trusting", surplus=1), "surplus"),
        (b'{"partner_id": "acme", "headers": {}}\n', "body"),
        (b"[]\n", "expected an object"),
        (b"{\n", "invalid"),
    ],
)
def test_a_receipt_nobody_can_believe_is_refused(line: CommandLine, refused: bytes, sentence: str) -> None:
    """It is named with one sentence and ends nothing; the others do."""
    first, second = awaiting(line), awaiting(line, "trusting", "m")

    answer = line.run("enqueue", "receipts", "-", stdin=refused + signed())

    assert answer.code == 1
    assert answer.err.startswith("line 1: invalid: ")
    assert sentence in answer.err
    assert line.storage.jobs.get(first) is None
    assert line.storage.jobs.get(second) is not None


def test_without_partners_only_settlements_are_confirmed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a partner file no partner's receipt is believed, signed or not."""
    line = command_line(monkeypatch, capsys)
    awaiting(line)
    builders.admitted_and_claimed(line.storage.jobs, builders.job("m"))

    answer = line.run("enqueue", "receipts", "-", "--json", stdin=signed() + plain("trusting") + plain("settlement"))

    assert counted(answer) == {"resolved": 1, "invalid": 2}


def test_a_store_that_does_not_answer_is_told(line: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit code is 2, and the input is to be handed in again."""

    def unreachable(*_: object) -> object:
        raise StorageUnavailableError(operation="get", key="jobs")

    monkeypatch.setattr(line.storage.jobs, "get", unreachable)

    answer = line.run("enqueue", "receipts", "-", stdin=signed())

    assert answer.code == 2
    assert "0 lines are taken in" in answer.err


def test_empty_input_names_what_was_expected(line: CommandLine) -> None:
    """An input without a line ends with 2 and says what a line is."""
    answer = line.run("enqueue", "receipts", "-")

    assert answer.code == 2
    assert "expected one JSON receipt a line" in answer.err
