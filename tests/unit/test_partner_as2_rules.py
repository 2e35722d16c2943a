"""What an AS2 exchange means: rows 1 to 6 and 14 of the situations table."""

from datetime import UTC, datetime

import pytest

from reliability.as2_rules import Disposition, Receipt, ReceiptMode, as2_outcome, receipt_outcome
from reliability.delivery import (
    AcceptedPendingVerification,
    DeliveryOutcome,
    FailureConfirmed,
    Indeterminate,
    SuccessConfirmed,
)
from reliability.exchange import Exchange, Phase
from reliability.failures import SettlementFailureCode

OK = Exchange(phase=Phase.BODY, ended_at=datetime(2026, 1, 1, tzinfo=UTC), status=200, body_sha256="cd" * 32)


def receipt(disposition: str, *, mic_matches: bool | None = True) -> Receipt:
    """Make the receipt with this disposition field."""
    parsed = Disposition.parse(f"automatic-action/MDN-sent-automatically; {disposition}")
    assert parsed is not None
    return Receipt(disposition=parsed, mic_matches=mic_matches)


@pytest.mark.parametrize(
    "row, found, kind, rule",
    [
        (1, receipt("processed/error: authentication-failed"), FailureConfirmed, "as2.processed.error"),
        (1, receipt("processed", mic_matches=False), FailureConfirmed, "as2.mic_mismatch"),
        (2, receipt("processed"), SuccessConfirmed, "as2.processed"),
        (3, None, Indeterminate, "as2.receipt.missing"),
        (3, receipt("processed", mic_matches=None), Indeterminate, "as2.receipt.without_mic"),
        (3, receipt("displayed"), Indeterminate, "as2.receipt.unreadable"),
        (5, receipt("processed/warning: duplicate-document"), SuccessConfirmed, "as2.processed.duplicate_document"),
        (6, receipt("failed/Failure: unsupported MIC-algorithms"), FailureConfirmed, "as2.failed"),
        (6, receipt("failed/failure: unsupported format"), FailureConfirmed, "as2.failed"),
    ],
)
def test_answer_with_a_synchronous_receipt(
    row: int, found: Receipt | None, kind: type[DeliveryOutcome], rule: str
) -> None:
    """With status 200 the receipt decides, and without a receipt nothing is certain."""
    outcome = as2_outcome(ReceiptMode.SYNCHRONOUS, OK, found)

    assert (row, type(outcome), outcome.rule) == (row, kind, rule)


def test_asynchronous_answer_waits_for_the_receipt() -> None:
    """A 2xx says only that the transfer worked (row 4)."""
    assert isinstance(as2_outcome(ReceiptMode.ASYNCHRONOUS, OK, None), AcceptedPendingVerification)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 415])
def test_status_that_is_not_transient_is_final(status: int) -> None:
    """AS2 does not repeat what an agreement has to change first (row 14)."""
    exchange = Exchange(phase=Phase.BODY, ended_at=OK.ended_at, status=status)

    assert isinstance(as2_outcome(ReceiptMode.SYNCHRONOUS, exchange, None), FailureConfirmed)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_transient_status_is_sent_again(status: int) -> None:
    """A transient status leaves the outcome unknown, as for a webhook."""
    exchange = Exchange(phase=Phase.BODY, ended_at=OK.ended_at, status=status)

    assert isinstance(as2_outcome(ReceiptMode.ASYNCHRONOUS, exchange, None), Indeterminate)


def test_unsupported_agreement_has_its_own_code() -> None:
    """What the partner cannot process at all is told apart from what it processed with an error."""
    failed = receipt_outcome(receipt("failed/failure: unsupported format"))
    erred = receipt_outcome(receipt("processed/error: decryption-failed"))

    assert isinstance(failed, FailureConfirmed)
    assert isinstance(erred, FailureConfirmed)
    assert (failed.reason.code, erred.reason.code) == (
        SettlementFailureCode.UNSUPPORTED,
        SettlementFailureCode.VERIFICATION,
    )


def test_duplicate_needs_no_mic() -> None:
    """The partner has it from before; what it says of the repeat's content changes nothing."""
    outcome = receipt_outcome(receipt("processed/warning: duplicate-document", mic_matches=None))

    assert isinstance(outcome, SuccessConfirmed)


def test_confirmed_receipt_keeps_the_digest_of_the_answer() -> None:
    """The evidence of a success is the digest of the answer that held the receipt."""
    outcome = as2_outcome(ReceiptMode.SYNCHRONOUS, OK, receipt("processed"))

    assert isinstance(outcome, SuccessConfirmed)
    assert outcome.evidence_sha256 == "cd" * 32


@pytest.mark.parametrize(
    "value", ["", "processed", "automatic-action/x processed", "a/b; accepted", "a/b; processed/what: ever"]
)
def test_disposition_outside_the_grammar_is_none(value: str) -> None:
    """A field that does not follow the grammar is no disposition."""
    assert Disposition.parse(value) is None


def test_disposition_is_read_without_regard_to_case() -> None:
    """Partners write the words in either case."""
    found = Disposition.parse("Automatic-Action/MDN-Sent-Automatically; Processed/Warning: Duplicate-Document")

    assert found == Disposition(type="processed", modifier="warning", text="duplicate-document")
