"""Apply the transition of a claim to the memory ledger: the counterpart of the `record_*` scripts."""

from typing import assert_never

from reliability.dead_letter import DeadLetterRecord
from reliability.errors import CapacityReachedError, DeadLetterConflictError, StaleClaimError
from reliability.reconciliation import ReconciliationRequest
from storage import dedup_mark
from storage.job_ids import reconciliation_keys
from storage.jobs import Await, Bury, Claim, ClaimCause, Finish, JobState, Reschedule, Transition
from storage.memory_state import MemoryState, Row
from storage.options import PUBLICATION_GRACE_MS


def record(state: MemoryState, claim: Claim, transition: Transition) -> None:
    """Apply the transition if the claim still holds; the caller holds the lock and has checked the values."""
    now_ms = state.clock.now_ms()
    row = holding(state, claim, now_ms)
    if row is None:
        raise StaleClaimError(claim.job_id)
    match transition:
        case Finish() | Bury():
            end(state, row, transition, now_ms)
        case Reschedule():
            _reschedule(state, row, transition, claim.cause, now_ms)
        case Await(request=request):
            _await(state, row, request, now_ms)
        case _:
            assert_never(transition)


def holding(state: MemoryState, claim: Claim, now_ms: int) -> Row | None:
    """Return the row of a claim that still holds."""
    row = state.rows.get(claim.job_id)
    if row is None or row.state is not JobState.LEASED or row.lease_until_ms is None:
        return None
    same = row.version == claim.version and row.token == claim.token
    return row if same and row.lease_until_ms > now_ms else None


def renew(state: MemoryState, claim: Claim, now_ms: int, lease_ms: int) -> bool:
    """Extend the lease of a claim that still holds."""
    row = holding(state, claim, now_ms)
    if row is None:
        return False
    row.lease_until_ms = row.score = now_ms + lease_ms
    return True


def resume(state: MemoryState, claim: Claim, now_ms: int, lease_ms: int) -> bool:
    """Take back a lease that ran out, if nobody has claimed the job since."""
    row = state.rows.get(claim.job_id)
    if row is None or (row.version, row.token) != (claim.version, claim.token):
        return False
    # A hold that took effect when the lease ran out takes effect again when the outcome is recorded.
    row.hold = row.hold or row.state is JobState.HELD
    row.lease_until_ms, row.cause = now_ms + lease_ms, ClaimCause.DUE
    state.move(row, JobState.LEASED, row.lease_until_ms)
    return True


def end(state: MemoryState, row: Row, transition: Finish | Bury, now_ms: int) -> None:
    """Take the row out, count and remember how it ended, resolve what reconciliation still keeps of it."""
    job_id = row.job.job_id
    match transition:
        case Finish(finished_as=finished_as):
            mark, counter = dedup_mark.mark_of(row.digest, finished_as), finished_as.value
        case Bury(record=dead_letter):
            store_dead_letter(state, dead_letter, now_ms)
            state.dead.jobs[job_id], state.dead.versions[job_id] = row.job, row.version
            mark, counter = dedup_mark.mark_of(row.digest), "dead"
        case _:
            assert_never(transition)
    state.drop_row(row, counter)
    state.marks.put(job_id, mark, now_ms)
    for key in reconciliation_keys(job_id):
        state.entries.resolve(key, now_ms)


def store_dead_letter(state: MemoryState, record: DeadLetterRecord, now_ms: int) -> bool:
    """Store the record; False if the same bytes are there; other bytes raise, changing nothing."""
    stored, kept = record.canonical_json(), state.dead.records.get(record.receipt_id)
    if kept is not None:
        if kept != stored:
            raise DeadLetterConflictError(record.receipt_id)
        return False
    state.dead.records[record.receipt_id] = stored
    state.dead.finalized_at[record.receipt_id] = record.finalized_at
    state.dead.unpublished[record.receipt_id] = now_ms + PUBLICATION_GRACE_MS
    return True


def _reschedule(state: MemoryState, row: Row, plan: Reschedule, cause: ClaimCause, now_ms: int) -> None:
    if plan.pending:
        _keep_entry(state, plan.pending)
    target = JobState.OUTSTANDING if plan.publishes else JobState.PARKED
    target = JobState.HELD if row.hold else target
    due_at_ms = now_ms + plan.delay_ms
    is_spent = plan.attempt != row.attempt
    state.counters[row.job.kind]["retried"] += is_spent
    # An attempt that was not spent is claimed again for the reason it was: a worker may have died in it.
    row.cause = ClaimCause.DUE if is_spent else cause
    row.attempt, row.due_at_ms, row.wakeups = plan.attempt, due_at_ms, 0
    row.drop_lease()
    state.move(row, target, state.lost_after(due_at_ms, 0) if target is JobState.OUTSTANDING else due_at_ms)


def _await(state: MemoryState, row: Row, request: ReconciliationRequest, now_ms: int) -> None:
    _keep_entry(state, request)
    # A job that is held while it waits is verified first when it is released.
    target, row.cause = (JobState.HELD, ClaimCause.ESCALATED) if row.hold else (JobState.AWAITING, ClaimCause.DUE)
    row.due_at_ms, row.wakeups = now_ms, 0
    row.drop_lease()
    state.move(row, target, now_ms)


def _keep_entry(state: MemoryState, request: ReconciliationRequest) -> None:
    if not state.entries.fits(request.idempotency_key):
        raise CapacityReachedError("the reconciliation queue", state.entries.capacity)
    state.entries.keep(request)
