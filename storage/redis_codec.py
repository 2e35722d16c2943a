"""Read what the ledger's scripts reply: admissions, claims, rows, wake-ups and counts."""

from collections.abc import Mapping, Sequence
from typing import Any

from reliability.errors import InvalidRecordError
from storage.jobs import (
    Admission,
    Admitted,
    ClaimResult,
    Conflict,
    Duplicate,
    DuplicateOf,
    FinishedAs,
    JobKind,
    JobRow,
    JobState,
    LedgerCounts,
    NotDue,
    Refusal,
    Refused,
    WakeUp,
    WakeUpCause,
)
from storage.packed_row import PackedRow

_WAKE_UP_WIDTH = 6
_REFUSALS = {why.value.encode(): Refused(why=why) for why in Refusal}


def admission(reply: bytes) -> Admission:
    """Read the reply of `admit`."""
    match reply:
        case b"admitted":
            return Admitted()
        case b"conflict":
            return Conflict()
        case _:
            return Duplicate(of=DuplicateOf(reply.decode()))


def claim_result(job_id: str, reply: Sequence[Any]) -> ClaimResult:
    """
    Read the reply of `claim`.

    Raises:
        InvalidRecordError: The row has lost its payload.

    """
    now_ms, answer = reply
    result = claim_answer(job_id, now_ms, answer)
    if isinstance(result, InvalidRecordError):
        raise result
    return result


def claim_answer(job_id: str, now_ms: int, answer: Sequence[Any]) -> ClaimResult | InvalidRecordError:
    """Read what a script says to one claim."""
    match answer[0]:
        case b"claimed":
            return PackedRow.read(job_id, answer[1]).claimed(job_id, answer[2], now_ms)
        case b"not_due":
            return NotDue(remaining_ms=answer[1])
        case b"refused":
            return _REFUSALS[answer[1]]
        case b"no_payload":
            return no_payload(job_id)
        case _:
            raise AssertionError(f"expected a known answer to a claim, got: {answer!r}")


def no_payload(job_id: str) -> InvalidRecordError:
    """Return the error of a row whose payload is gone."""
    return InvalidRecordError(f"job {job_id!r}", "expected a payload beside the row, got none; cancel the job")


def wake_ups(reply: Sequence[Any]) -> list[WakeUp]:
    """Read the reply of `due`."""
    rows = (reply[start : start + _WAKE_UP_WIDTH] for start in range(0, len(reply), _WAKE_UP_WIDTH))
    return [
        WakeUp(
            job_id=job_id.decode(),
            kind=JobKind(kind.decode()),
            queue=queue.decode(),
            attempt=int(attempt),
            cause=WakeUpCause(cause.decode()),
            alone=bool(alone),
        )
        for job_id, kind, queue, attempt, cause, alone in rows
    ]


def rows_in_order(reply: Sequence[Any], limit: int) -> list[JobRow]:
    """Read the reply of `rows`, merging the queues by score and id."""
    ordered = sorted(reply, key=lambda entry: (float(entry[1]), entry[0]))
    named = [(entry[0].decode(), entry[2]) for entry in ordered[:limit]]
    return [PackedRow.read(job_id, packed).shown(job_id) for job_id, packed in named]


def finalized(job_ids: Sequence[str], rows: Sequence[bytes | None]) -> list[int | None]:
    """Return when each job was finalised; None where there is no row, or a damaged one."""
    return [
        None if packed is None else _finalized(job_id, packed) for job_id, packed in zip(job_ids, rows, strict=True)
    ]


def counts(fields: Mapping[bytes, bytes]) -> LedgerCounts:
    """Read the counters of a kind; one that was never raised is 0."""
    numbers = {name.decode(): int(value) for name, value in fields.items()}
    return LedgerCounts(
        admitted=numbers.get("admitted", 0),
        duplicates=numbers.get("duplicates", 0),
        conflicts=numbers.get("conflicts", 0),
        dead=numbers.get("dead", 0),
        retried=numbers.get("retried", 0),
        finished={end: numbers.get(end, 0) for end in FinishedAs},
        in_flight={state: numbers.get(state, 0) for state in JobState},
    )


def _finalized(job_id: str, packed: bytes) -> int | None:
    try:
        return int(PackedRow.read(job_id, packed).finalized)
    except InvalidRecordError:
        return None
