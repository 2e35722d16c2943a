"""Read stored dead letters; a row that does not decode, or that its index contradicts, is reported, never skipped."""

from collections.abc import Iterable
from dataclasses import dataclass

from reliability.dead_letter import DeadLetterRecord
from reliability.errors import InvalidRecordError


@dataclass(frozen=True, slots=True)
class IndexedRow:
    """Hold what the index says about a record, and its bytes; None where the index has no record behind it."""

    receipt_id: str
    finalized_at: int
    stored: bytes | None


def decoded(receipt_id: str, stored: bytes | None) -> DeadLetterRecord:
    """
    Return the record kept under an id.

    Raises:
        InvalidRecordError: It is missing, does not decode, or is about another receipt.

    """
    if stored is None:
        raise InvalidRecordError(_named(receipt_id), "expected a record behind the index entry, got none")
    try:
        record = DeadLetterRecord.from_json(stored)
    except InvalidRecordError as error:
        raise InvalidRecordError(_named(receipt_id), str(error)) from error
    if record.receipt_id != receipt_id:
        raise InvalidRecordError(_named(receipt_id), "expected a record of this receipt, got one of another")
    return record


def in_agreement(rows: Iterable[IndexedRow], *, records: int, indexed: int) -> list[DeadLetterRecord]:
    """
    Return the records of a listing whose index has `indexed` entries for `records` records.

    Raises:
        InvalidRecordError: A row does not decode, or index and records disagree.

    """
    if records != indexed:
        raise InvalidRecordError("dead letters", f"expected {records} index entries, got: {indexed}")
    return [_agreed(row) for row in rows]


def decodable(rows: Iterable[tuple[str, bytes | None]]) -> list[DeadLetterRecord]:
    """
    Return the records that decode, so that a broken one does not stop those behind it.

    Raises:
        InvalidRecordError: None of them decodes; a broken record stays owed and comes back until it is alone.

    """
    good: list[DeadLetterRecord] = []
    failure: InvalidRecordError | None = None
    for receipt_id, stored in rows:
        try:
            good.append(decoded(receipt_id, stored))
        except InvalidRecordError as error:
            failure = error
    if failure and not good:
        raise failure
    return good


def _agreed(row: IndexedRow) -> DeadLetterRecord:
    record = decoded(row.receipt_id, row.stored)
    if record.finalized_at != row.finalized_at:
        problem = f"expected finalized_at {row.finalized_at} as indexed, got: {record.finalized_at}"
        raise InvalidRecordError(_named(row.receipt_id), problem)
    return record


def _named(receipt_id: str) -> str:
    return f"dead letter of {receipt_id!r}"
