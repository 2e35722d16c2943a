"""Read what the ledger's scripts reply: admissions, claims, rows, wake-ups and counts."""

from collections.abc import Mapping, Sequence
from typing import Any

from reliability.errors import InvalidRecordError
from storage.jobs import (
    Admission,
    Admitted,
    Claim,
    ClaimCause,
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

_WAKE_UP_WIDTH = 6


def admission(reply: bytes) -> Admission:
    """Read the reply of `admit`."""
    match reply:
        case b"admitted":
            return Admitted()
        case b"conflict":
            return Conflict()
        case _:
            return Duplicate(of=DuplicateOf(reply.decode()))


def claim_result(job_id: str, token: str, reply: Sequence[Any]) -> ClaimResult:
    """
    Read the reply of `claim`.

    Raises:
        InvalidRecordError: The row has lost its payload.

    """
    match reply[0]:
        case b"claimed":
            return _claim(job_id, token, reply[1:])
        case b"not_due":
            return NotDue(remaining_ms=int(reply[1]))
        case b"refused":
            return Refused(why=Refusal(reply[1].decode()))
        case _:
            raise no_payload(job_id)


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


def row(job_id: str, fields: Sequence[Any]) -> JobRow:
    """Read the fields of a row, which stand in the order of their places in `_row.lua`."""
    kind, queue, digest, finalized, admitted, attempt, version, state, due, first, owner, _, lease, wakeups = fields[:14]
    return JobRow(
        job_id=job_id,
        kind=JobKind(kind.decode()),
        queue=queue.decode(),
        state=JobState(state.decode()),
        attempt=int(attempt),
        version=version,
        due_at_ms=due,
        admitted_at_ms=admitted,
        first_attempt_at_ms=first,
        finalized_at=int(finalized),
        owner=None if owner is None else owner.decode(),
        lease_until_ms=lease,
        wakeups=wakeups or 0,
        digest=digest,
    )


def rows_in_order(reply: Sequence[Any], limit: int) -> list[JobRow]:
    """Read the reply of `rows`, merging the queues by score and id."""
    ordered = sorted(reply, key=lambda entry: (float(entry[1]), entry[0]))
    return [row(entry[0].decode(), entry[2]) for entry in ordered[:limit]]


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


def _claim(job_id: str, token: str, reply: Sequence[Any]) -> Claim:
    kind, queue, attempt, version, until_ms, payload, finalized, admitted, first, cause, now_ms = reply
    return Claim(
        job_id=job_id,
        kind=JobKind(kind.decode()),
        queue=queue.decode(),
        attempt=int(attempt),
        version=int(version),
        token=token,
        lease_until_ms=int(until_ms),
        payload=payload,
        finalized_at=int(finalized),
        admitted_at_ms=int(admitted),
        first_attempt_at_ms=int(first),
        cause=ClaimCause(cause.decode()),
        claimed_at_ms=int(now_ms),
    )
