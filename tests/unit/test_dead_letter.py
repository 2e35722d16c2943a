"""The dead-letter record: what is refused when it is made and what its bytes hold. The golden data has the rest."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reliability.dead_letter import DEAD_LETTER_SCHEMA, DeadLetterRecord
from reliability.errors import InvalidInputError, InvalidRecordError
from reliability.failures import SettlementFailureCode, SettlementFailureReason

REASON = SettlementFailureReason.from_detail(SettlementFailureCode.RPC, "card 4242 declined")
MAX_SAFE_INTEGER = 2**53 - 1


def text_with(**changes: object) -> str:
    """Write a record's JSON with some fields changed."""
    record = DeadLetterRecord.new("r-1", 1_700_000_000, 3, REASON)
    return json.dumps(record.to_wire() | changes)


@given(
    st.text(),
    st.integers(0, MAX_SAFE_INTEGER),
    st.integers(0, 2**32 - 1),
    st.sampled_from(SettlementFailureCode),
    st.text(),
)
def test_a_record_reads_back_from_its_bytes(
    receipt_id: str, finalized_at: int, attempts: int, code: SettlementFailureCode, detail: str
) -> None:
    """Every record that can be made has canonical bytes that decode to an equal one."""
    reason = SettlementFailureReason.from_detail(code, detail)

    record = DeadLetterRecord.new(receipt_id, finalized_at, attempts, reason)

    assert record.attempts == max(1, attempts)
    assert record.schema == DEAD_LETTER_SCHEMA
    assert DeadLetterRecord.from_json(record.canonical_json()) == record


def test_new_counts_attempts_from_one_but_decoding_floors_nothing() -> None:
    """A record made with 0 attempts says 1; one that was stored with 0 keeps it."""
    assert DeadLetterRecord.new("r-1", 0, 0, REASON).attempts == 1
    assert DeadLetterRecord.from_json(text_with(attempts=0)).attempts == 0


@pytest.mark.parametrize(
    "receipt_id, finalized_at, attempts",
    [
        ("r-1", MAX_SAFE_INTEGER + 1, 1),
        ("r-1", -1, 1),
        ("r-1", 1.0, 1),
        ("r-1", True, 1),
        ("r-1", 0, 2**32),
        ("r-1", 0, -1),
        ("\ud800", 0, 1),
        (7, 0, 1),
    ],
)
def test_a_record_without_canonical_form_is_never_made(receipt_id: str, finalized_at: int, attempts: int) -> None:
    """What could not be stored and published is refused when the record is made."""
    with pytest.raises(InvalidInputError):
        DeadLetterRecord.new(receipt_id, finalized_at, attempts, REASON)


def test_the_bytes_never_hold_the_detail() -> None:
    """The encoded record has the detail's digest and not its text."""
    encoded = DeadLetterRecord.new("r-1", 0, 1, REASON).canonical_json()

    assert b"4242" not in encoded
    assert b"declined" not in encoded


@pytest.mark.parametrize("pipeline_error, detail", [("rpc down", "rpc down"), ("", ""), (None, "it failed")])
def test_the_legacy_form_becomes_a_backend_reason(pipeline_error: str | None, detail: str) -> None:
    """A legacy record is a backend failure with the digest of pipeline_error if there is one, else of the reason."""
    text = text_with(reason="it failed", pipeline_error=pipeline_error)

    record = DeadLetterRecord.from_json(text)

    assert record.reason == SettlementFailureReason.from_detail(SettlementFailureCode.BACKEND, detail)


@pytest.mark.parametrize(
    "text",
    [
        text_with(pipeline_error=None),
        text_with(pipeline_error="x"),
        text_with(reason="x", extra=1),
        text_with(schema="chio.settle.dead-letter.v2"),
        text_with(schema=None),
        text_with(finalized_at=MAX_SAFE_INTEGER + 1),
        text_with(receipt_id=None),
        '{"schema": "chio.settle.dead-letter.v1", "schema": "chio.settle.dead-letter.v1"}',
        b"\xff",
    ],
)
def test_a_record_that_does_not_decode_is_an_invalid_record(text: str | bytes) -> None:
    """A text that is no record raises a ValueError that says it was a dead letter."""
    with pytest.raises(InvalidRecordError, match="dead letter") as refusal:
        DeadLetterRecord.from_json(text)

    assert isinstance(refusal.value, ValueError)


def test_records_are_ordered_by_time_then_id_bytes() -> None:
    """Listings order by finalized_at, then by the id's UTF-8 bytes."""
    ids = ["z", "a", "\N{GRINNING FACE}", "\uffee"]
    records = [DeadLetterRecord.new(receipt_id, 5, 1, REASON) for receipt_id in ids]
    earlier = DeadLetterRecord.new("zz", 4, 1, REASON)

    ordered = sorted([*records, earlier], key=lambda record: record.ordering_key)

    assert [record.receipt_id for record in ordered] == ["zz", "a", "z", "\uffee", "\N{GRINNING FACE}"]
