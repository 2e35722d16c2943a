"""
The table of situations in docs/partners.md, row by row, each with its right decision, over a real socket.

The number in a test's name is the row. Here are the rows of AS2 and of settlement rails; those of webhooks are in
`test_situations_answers` and `test_situations_network`. Rows that no single answer shows are tested where they happen:
`ELSEWHERE` says where, and the last test compares all of it with the table.
"""

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from reliability import outcomes
from reliability.as2_rules import Disposition, Receipt, ReceiptMode, as2_outcome
from reliability.delivery import AcceptedPendingVerification, FailureConfirmed, SuccessConfirmed
from reliability.exchange import Exchange
from reliability.failures import SettlementFailureCode
from reliability.outcomes import SettlementResult
from tasks.hooks.http_client import HttpClient
from tasks.hooks.http_exchange import HttpRequest
from tasks.hooks.http_settlement import HttpSettlementHook
from tasks.hooks.webhook import evidence_of
from tests.support import partner as support
from tests.support.observations import observation
from tests.support.partner import RunningPartner
from tests.support.rail import running_rail
from tests.support.situations import NOW, entry_of, failed, is_final, next_delay
from worker.simulators.rail_script import RailScript

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs" / "partners.md"
#: Rows that no single answer shows.
ELSEWHERE = {
    32: "tests/flows/test_confirm_flow.py",
    33: "tests/unit/test_partner_receipts.py",
    34: "tests/acceptance",
    35: "tests/acceptance",
}


@pytest.fixture
def partner(tmp_path: Path) -> Iterator[RunningPartner]:
    """Run a partner whose steps stand in the URL."""
    with support.running_partner(tmp_path / "partner.jsonl") as running:
        yield running


def as2_exchange(partner: RunningPartner, steps: str) -> Exchange:
    """Make the HTTP exchange that an AS2 message would be; its partner has no webhook secret to check."""
    prepared = HttpRequest(
        url=partner.url(steps, "as2"), body=b"message", headers={"webhook-id": "as2"}, total_deadline_s=2.0
    )
    return evidence_of(HttpClient().post(prepared), NOW)


def receipt(disposition: str, *, mic_matches: bool = True) -> Receipt:
    """Make the receipt with this disposition."""
    parsed = Disposition.parse(f"automatic-action/MDN-sent-automatically; {disposition}")
    assert parsed is not None
    return Receipt(disposition=parsed, mic_matches=mic_matches)


def rail_answer(log_path: Path, *steps: str, times: int = 1, **facts: object) -> SettlementResult:
    """Settle one receipt on a rail that meets it with these steps; return the answer to the last request."""
    script = RailScript.from_document({"default": list(steps)})
    with running_rail(log_path, script) as rail:
        hook = HttpSettlementHook(url=rail.url, total_deadline_s=2.0)
        answers = [hook.observe(observation()) for _ in range(times - 1)]
        answers.append(hook.observe(observation(**facts)))
    return answers[-1]


@pytest.mark.parametrize(
    "found", [receipt("processed/error: authentication-failed"), receipt("processed", mic_matches=False)]
)
def test_row_01_as2_error_disposition_or_mic_mismatch(partner: RunningPartner, found: Receipt) -> None:
    """An AS2 answer 200 whose receipt tells an error, or another MIC, is a dead letter with its code."""
    outcome = failed(as2_outcome(ReceiptMode.SYNCHRONOUS, as2_exchange(partner, "200"), found))

    assert outcome.reason.code is SettlementFailureCode.VERIFICATION
    assert is_final(outcome)


def test_row_02_as2_good_receipt(partner: RunningPartner) -> None:
    """An AS2 answer 200 with a receipt whose MIC is ours is done."""
    outcome = as2_outcome(ReceiptMode.SYNCHRONOUS, as2_exchange(partner, "200"), receipt("processed"))

    assert isinstance(outcome, SuccessConfirmed)


def test_row_03_as2_without_a_readable_receipt(partner: RunningPartner) -> None:
    """A 2xx without the receipt that was asked for is sent again under the same id."""
    outcome = as2_outcome(ReceiptMode.SYNCHRONOUS, as2_exchange(partner, "200"), None)

    assert next_delay(outcome) == timedelta(milliseconds=250)


def test_row_04_as2_asynchronous_receipt(partner: RunningPartner) -> None:
    """A 2xx says that the transfer worked; the receipt is awaited."""
    outcome = as2_outcome(ReceiptMode.ASYNCHRONOUS, as2_exchange(partner, "202"), None)

    assert isinstance(outcome, AcceptedPendingVerification)
    assert entry_of(outcome) is not None


def test_row_05_as2_duplicate_document(partner: RunningPartner) -> None:
    """A warning that our repeat is a duplicate means that the delivery is done."""
    found = receipt("processed/warning: duplicate-document")
    outcome = as2_outcome(ReceiptMode.SYNCHRONOUS, as2_exchange(partner, "200"), found)

    assert isinstance(outcome, SuccessConfirmed)
    assert outcome.rule == "as2.processed.duplicate_document"


@pytest.mark.parametrize("why", ["unsupported MIC-algorithms", "unsupported format"])
def test_row_06_as2_failed_disposition(partner: RunningPartner, why: str) -> None:
    """What the partner cannot process at all is final until the agreement is changed."""
    found = receipt(f"failed/Failure: {why}")
    outcome = failed(as2_outcome(ReceiptMode.SYNCHRONOUS, as2_exchange(partner, "200"), found))

    assert outcome.reason.code is SettlementFailureCode.UNSUPPORTED


def test_row_09_rail_202(tmp_path: Path) -> None:
    """A rail's 202 is non-committal: the settlement waits in reconciliation."""
    assert isinstance(rail_answer(tmp_path / "rail.jsonl", "202"), outcomes.Pending)


def test_row_10_rail_409_for_a_finished_key(tmp_path: Path) -> None:
    """A rail that had settled the key before is done, under the transcript it names."""
    answer = rail_answer(tmp_path / "rail.jsonl", "409")

    assert isinstance(answer, outcomes.Accepted)
    assert answer.transcript_id.startswith("tr-")


def test_row_12_rail_422_for_other_parameters(tmp_path: Path) -> None:
    """A key that comes with other bytes is never tried again."""
    answer = rail_answer(tmp_path / "rail.jsonl", "ok", times=2, tool_name="search.other")

    assert isinstance(answer, outcomes.Permanent)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 415])
def test_row_14_client_errors_of_as2_and_of_a_rail(partner: RunningPartner, tmp_path: Path, status: int) -> None:
    """AS2 and settlements do not repeat what is not transient."""
    exchange = as2_exchange(partner, str(status))

    assert isinstance(as2_outcome(ReceiptMode.ASYNCHRONOUS, exchange, None), FailureConfirmed)
    assert isinstance(rail_answer(tmp_path / "rail.jsonl", str(status)), outcomes.Permanent)


def test_every_row_of_the_table_is_tested() -> None:
    """Each row that docs/partners.md lists has a test here, or is named with the place of its test."""
    listed = {int(row) for row in re.findall(r"^\| (\d+) \|", DOCS.read_text(encoding="utf-8"), re.MULTILINE)}
    files = [path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_situations*.py")]
    here = {int(row) for text in files for row in re.findall(r"^def test_row_(\d\d)_", text, re.MULTILINE)}

    assert here | set(ELSEWHERE) == listed
    assert here.isdisjoint(ELSEWHERE)
    assert all((ROOT / place).exists() for place in ELSEWHERE.values())
