"""Admissions and claims of the memory ledger: the counterpart of the `admit` and `claim` scripts."""

from storage import dedup_mark
from storage.jobs import (
    Admission,
    Admitted,
    Claim,
    ClaimCause,
    ClaimResult,
    Conflict,
    Duplicate,
    DuplicateOf,
    JobState,
    Lease,
    NewJob,
    NotDue,
    Refusal,
    Refused,
)
from storage.memory_state import MemoryState, Row


def admit(state: MemoryState, job: NewJob) -> Admission:
    """Write the row and the mark unless the id is known; count either way."""
    now_ms, digest, counter = state.clock.now_ms(), job.digest, state.counters[job.kind]
    known = known_as(state, job.job_id, digest, now_ms)
    if known is None:
        state.marks.put(job.job_id, dedup_mark.mark_of(digest), now_ms)
        state.write_row(job, digest, now_ms)
        counter["admitted"] += 1
        return Admitted()
    counter["conflicts" if isinstance(known, Conflict) else "duplicates"] += 1
    return known


def known_as(state: MemoryState, job_id: str, digest: bytes, now_ms: int) -> Duplicate | Conflict | None:
    """Return what the id is known as, None when it is new."""
    if row := state.rows.get(job_id):
        return Duplicate(of=DuplicateOf.IN_LEDGER) if row.digest == digest else Conflict()
    if job_id in state.dead.records:
        job = state.dead.jobs.get(job_id)
        return Duplicate(of=DuplicateOf.DEAD) if job is None or job.digest == digest else Conflict()
    mark = state.marks.get(job_id, now_ms)
    if mark is None:
        return None
    return Duplicate(of=DuplicateOf.FINISHED) if dedup_mark.is_of(mark, digest) else Conflict()


def claim(state: MemoryState, job_id: str, attempt: int, lease: Lease) -> ClaimResult:
    """Take the lease of exactly this attempt if it is due and not leased."""
    now_ms, row = state.clock.now_ms(), state.rows.get(job_id)
    if row is None:
        return Refused(why=Refusal.GONE)
    if refusal := _refusal(row, attempt, now_ms):
        return Refused(why=refusal)
    if row.state is JobState.LEASED:
        row.cause, row.alone = ClaimCause.LEASE_EXPIRED, True
    elif row.due_at_ms > now_ms:
        return NotDue(remaining_ms=row.due_at_ms - now_ms)
    return _leased(state, row, lease, now_ms)


def is_running(row: Row, now_ms: int) -> bool:
    """Tell whether a worker holds a lease that has not expired."""
    return row.state is JobState.LEASED and row.lease_until_ms is not None and row.lease_until_ms > now_ms


def _refusal(row: Row, attempt: int, now_ms: int) -> Refusal | None:
    if row.attempt != attempt:
        return Refusal.OTHER_ATTEMPT
    if is_running(row, now_ms):
        return Refusal.LEASED
    if row.state is JobState.HELD or row.hold:
        return Refusal.HELD
    return Refusal.AWAITING if row.state is JobState.AWAITING else None


def _leased(state: MemoryState, row: Row, lease: Lease, now_ms: int) -> Claim:
    until_ms = now_ms + lease.lease_ms
    first_at_ms = now_ms if row.first_attempt_at_ms is None else row.first_attempt_at_ms
    row.version += 1
    row.first_attempt_at_ms = first_at_ms
    row.owner, row.token, row.lease_until_ms = lease.owner, lease.token, until_ms
    state.move(row, JobState.LEASED, until_ms)
    return Claim(
        job_id=row.job.job_id,
        kind=row.job.kind,
        queue=row.job.queue,
        attempt=row.attempt,
        version=row.version,
        token=lease.token,
        lease_until_ms=until_ms,
        payload=row.job.payload,
        finalized_at=row.job.finalized_at,
        admitted_at_ms=row.admitted_at_ms,
        first_attempt_at_ms=first_at_ms,
        cause=row.cause,
        claimed_at_ms=now_ms,
    )
