"""Whose receipts are believed: row 33 of the table of situations, before any of them meets the ledger."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from reliability.errors import InvalidInputError
from reliability.receipt import DeliveryReceipt, Verdict
from tasks import receipt_messages
from tests.support import partner_file
from worker.simulators.partner_receipts import Receipt, signed_receipt

AT = datetime(2026, 3, 1, tzinfo=UTC)
TWO_PARTNERS = (
    partner_file.MINIMAL
    + """
[partners.bolt]
url = "https://hooks.bolt.example/"
secrets = ["env:ACME_NEXT_SECRET"]
"""
)


def handed_in(receipt: Receipt, **changes: object) -> Mapping[str, object]:
    """Return the `signed` argument of the confirm task, with some members changed."""
    return {
        "partner_id": receipt.partner_id,
        "headers": dict(receipt.headers),
        "body": receipt.body.decode(),
        **changes,
    }


def believed(folder: Path, signed: object) -> DeliveryReceipt:
    """Read the receipt as the confirm task does, with two partners configured."""
    return receipt_messages.believed({"signed": signed}, partner_file.directory(folder, TWO_PARTNERS))


def receipt_of(partner_id: str, secret: str, message_id: str = "msg_1") -> Receipt:
    """Make a signed receipt."""
    return signed_receipt(Verdict.CONFIRMED, partner_id, message_id, secret, AT)


def test_receipt_with_the_partners_signature_is_believed(tmp_path: Path) -> None:
    """The partner signed it, so it says what it says, however old it is."""
    found = believed(tmp_path, handed_in(receipt_of("acme", partner_file.SECRET)))

    assert (found.partner_id, found.message_id, found.says) == ("acme", "msg_1", Verdict.CONFIRMED)


def test_unsigned_receipt_is_refused(tmp_path: Path) -> None:
    """A receipt that should have been signed and is not says nothing."""
    with pytest.raises(InvalidInputError, match="expected the signature of a known partner"):
        believed(tmp_path, handed_in(receipt_of("acme", "")))


def test_receipt_signed_by_another_partner_is_refused(tmp_path: Path) -> None:
    """One partner cannot confirm in the name of another."""
    with pytest.raises(InvalidInputError, match="expected the signature of a known partner"):
        believed(tmp_path, handed_in(receipt_of("acme", partner_file.NEXT_SECRET)))


def test_receipt_about_another_partner_is_refused(tmp_path: Path) -> None:
    """One partner cannot confirm what was sent to another, even under its own signature."""
    with pytest.raises(InvalidInputError, match="expected a receipt of the partner that signed it"):
        believed(tmp_path, handed_in(receipt_of("acme", partner_file.NEXT_SECRET), partner_id="bolt"))


def test_receipt_of_an_unknown_partner_is_refused(tmp_path: Path) -> None:
    """Nobody can vouch for a partner that is not configured."""
    with pytest.raises(InvalidInputError, match="expected the signature of a known partner"):
        believed(tmp_path, handed_in(receipt_of("nobody", partner_file.SECRET)))


def test_receipt_whose_body_was_changed_is_refused(tmp_path: Path) -> None:
    """The signature covers the verdict and the ids."""
    other = receipt_of("acme", partner_file.SECRET, "msg_2").body.decode()

    with pytest.raises(InvalidInputError, match="expected the signature of a known partner"):
        believed(tmp_path, handed_in(receipt_of("acme", partner_file.SECRET), body=other))
