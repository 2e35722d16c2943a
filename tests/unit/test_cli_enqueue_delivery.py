"""`chio-worker enqueue delivery` from its arguments to its exit code."""

from pathlib import Path

import pytest

from storage.jobs import JobKind
from tests.support import partner_file
from tests.support.cli import CommandLine, command_line
from tests.support.delivering import CREATED_AT, FAR_AWAY, delivering_line, delivery_line

#: What is wrong with a delivery, and what the one sentence about it says.
REFUSED: dict[str, tuple[dict[str, object], str]] = {
    "unknown partner": ({"partner_id": "nobody"}, "no partner 'nobody' is configured"),
    "disabled partner": ({"partner_id": "closed"}, "partner 'closed' is disabled"),
    "body too large": ({"body": "x" * 70_000}, "expected at most 65536 bytes (CHIO_MAX_PAYLOAD_BYTES)"),
    "expired": ({"expires_at": CREATED_AT + 1}, "the delivery has expired"),
    "header not allowed": ({"headers": {"x-other": "1"}}, "does not allow x-other"),
    "header injection": ({"headers": {"x-trace-id": "1\r\nhost: evil"}}, "visible ASCII characters on one line"),
    "header name injection": ({"headers": {"x-a\r\nb": "1"}}, "expected header names of lower-case letters"),
    "forged signature": ({"headers": {"webhook-signature": "v1,x"}}, "expected no header webhook-signature"),
    "content type injection": ({"content_type": "text/plain\r\nx: y"}, "content_type"),
    "no body": ({"body": None}, "expected exactly one of body and body_base64"),
    "two bodies": ({"body_base64": "AAAA"}, "expected exactly one of body and body_base64"),
    "foreign field": ({"priority": 1}, "priority"),
    "another schema": ({"schema": "chio.deliver.request.v2"}, "schema"),
    "id too long": ({"message_id": "m" * 195}, "job_id: expected 1 to 200 bytes"),
}


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> CommandLine:
    """Return a command line on stores in memory with a partner file."""
    return delivering_line(monkeypatch, capsys, tmp_path)


def test_deliveries_are_admitted_and_announced(line: CommandLine, tmp_path: Path) -> None:
    """Every delivery of a file is in the ledger under its partner and message, and the workers are woken."""
    file = tmp_path / "two.jsonl"
    file.write_bytes(delivery_line("a") + delivery_line("b", headers={"x-trace-id": "1"}, expires_at=FAR_AWAY))

    answer = line.run("enqueue", "delivery", str(file), "--json")

    assert (answer.code, answer.document["admitted"]) == (0, 2)
    assert line.storage.jobs.counts(JobKind.DELIVERY).admitted == 2
    assert line.storage.jobs.get("delivery:acme:a") is not None
    assert line.published("delivery")


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_delivery_costs_no_other(line: CommandLine, case: str) -> None:
    """It is named with its line and one sentence, nothing of it is admitted, and the others are."""
    changes, sentence = REFUSED[case]
    bad = delivery_line(**({"message_id": "bad"} | changes))

    answer = line.run("enqueue", "delivery", "-", stdin=bad + delivery_line("good"))

    said = [text for text in answer.err.splitlines() if text.startswith("line ")]
    assert answer.code == 1
    assert len(said) == 1, answer.err
    assert said[0].startswith("line 1: invalid: ")
    assert sentence in said[0]
    assert line.storage.jobs.counts(JobKind.DELIVERY).admitted == 1


def test_a_refusal_tells_nothing_of_the_body(line: CommandLine) -> None:
    """Neither the body nor a header's value is repeated when a delivery is refused."""
    refused = delivery_line(body="payload-of-the-message", headers={"x-other": "value-of-the-header"})

    answer = line.run("enqueue", "delivery", "-", "--json", stdin=refused)

    assert answer.document["invalid"] == 1
    assert "payload-of" not in answer.out + answer.err
    assert "value-of" not in answer.out + answer.err


def test_same_file_again_counts_as_duplicates(line: CommandLine) -> None:
    """What is known is not sent again; the same id with another body is a conflict and the first one stands."""
    line.run("enqueue", "delivery", "-", stdin=delivery_line("a"))

    again = line.run("enqueue", "delivery", "-", "--json", stdin=delivery_line("a") + delivery_line("a", body="other"))

    assert again.code == 1
    assert (again.document["duplicates"], again.document["conflicts"], again.document["admitted"]) == (1, 1, 0)


def test_a_broken_partner_file_stops_everything(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """With a file that does not hold nothing is taken in, and every problem is told."""
    broken = partner_file.MINIMAL + '\nurl_typo = "x"\n[partners.bolt]\nurl = "http://hooks.bolt.example/"\n'
    line = delivering_line(monkeypatch, capsys, tmp_path, broken)

    answer = line.run("enqueue", "delivery", "-", stdin=delivery_line())

    assert answer.code == 2
    assert "url_typo" in answer.err
    assert "partner 'bolt'" in answer.err
    assert line.storage.jobs.counts(JobKind.DELIVERY).admitted == 0


def test_without_a_partner_file_nothing_is_delivered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Deliveries need partners: the setting to set is named."""
    line = command_line(monkeypatch, capsys)

    answer = line.run("enqueue", "delivery", "-", stdin=delivery_line())

    assert answer.code == 2
    assert "CHIO_PARTNERS_FILE is not set" in answer.err
