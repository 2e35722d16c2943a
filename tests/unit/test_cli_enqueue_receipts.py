"""`chio-worker enqueue receipts` from its arguments to its exit code."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
import structlog

from reliability.receipt import Verdict
from tests.support import partner_file
from tests.support.cli import CommandLine, command_line
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


def signed(partner_id: str = "acme", secret: str = partner_file.SECRET) -> bytes:
    """Return a receipt as a partner signs it, as a line of a file."""
    return signed_receipt(Verdict.CONFIRMED, partner_id, "msg_1", secret, AT).to_json().encode() + b"\n"


def plain(partner_id: str, **changes: object) -> bytes:
    """Return an unsigned receipt as a line of a file."""
    facts = {"schema": "chio.deliver.receipt.v1", "partner_id": partner_id, "message_id": "m", "verdict": "failed"}
    return json.dumps({**facts, **changes}).encode() + b"\n"


def test_believed_receipts_are_published(line: CommandLine, tmp_path: Path) -> None:
    """A signed receipt, one of a partner that need not sign, and one of a settlement become a message each."""
    file = tmp_path / "receipts.jsonl"
    file.write_bytes(signed() + plain("trusting", detail="refused") + plain("settlement", verdict="confirmed"))

    answer = line.run("enqueue", "receipts", str(file), "--json")

    messages = line.published("delivery")
    assert answer.code == 0
    assert answer.document | {"size_bytes": 0} == {
        "lines": 3,
        "size_bytes": 0,
        "published": 3,
        "invalid": 0,
        "problems": [],
        "problems_omitted": 0,
    }
    assert [list(message) for message in messages] == [["signed"], ["receipt"], ["receipt"]]


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
    """It is named with one sentence and never published; the others are."""
    answer = line.run("enqueue", "receipts", "-", stdin=refused + signed())

    assert answer.code == 1
    assert answer.err.startswith("line 1: invalid: ")
    assert sentence in answer.err
    assert len(line.published("delivery")) == 1


def test_without_partners_only_settlements_are_confirmed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a partner file no partner's receipt is believed, signed or not."""
    line = command_line(monkeypatch, capsys)
    line.published("delivery")

    answer = line.run("enqueue", "receipts", "-", "--json", stdin=signed() + plain("trusting") + plain("settlement"))

    assert (answer.document["published"], answer.document["invalid"]) == (1, 2)


def test_a_broker_that_takes_nothing_is_told(line: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else keeps a receipt: the exit code is 2, and the input is to be handed in again."""

    def broken(*_: object, **__: object) -> object:
        raise OSError("no broker")

    monkeypatch.setattr(line.app, "send_task", broken)

    with structlog.testing.capture_logs():
        answer = line.run("enqueue", "receipts", "-", stdin=signed())

    assert answer.code == 2
    assert "0 lines are taken in" in answer.err


def test_empty_input_names_what_was_expected(line: CommandLine) -> None:
    """An input without a line ends with 2 and says what a line is."""
    answer = line.run("enqueue", "receipts", "-")

    assert answer.code == 2
    assert "expected one JSON receipt a line" in answer.err
