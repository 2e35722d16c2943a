"""Wake-ups and watermarks of the memory ledger: the counterpart of the `due` and mark scripts."""

from storage.jobs import ClaimCause, JobState, WakeUp, WakeUpCause
from storage.memory_state import MemoryState, Row


def due(state: MemoryState, limit: int) -> list[WakeUp]:
    """Take wake-ups: expired leases, then parked rows that are due, then rows whose message was lost."""
    now_ms = state.clock.now_ms()
    taken: list[WakeUp] = []
    for row in _up_to(state, JobState.LEASED, now_ms, limit):
        _expire(state, row, now_ms, taken)
    parked = _up_to(state, JobState.PARKED, now_ms, limit - len(taken))
    taken.extend(_wake(state, row, WakeUpCause.PARKED, now_ms) for row in parked)
    for queue, watermark in state.watermarks.items():
        for row in _up_to(state, JobState.OUTSTANDING, watermark, limit - len(taken), queue):
            row.wakeups += 1
            taken.append(_wake(state, row, WakeUpCause.MESSAGE_LOST, now_ms))
    return taken


def next_mark(state: MemoryState, queue: str, period_ms: int) -> int | None:
    """Return the time to the first caller of a period."""
    now_ms = state.clock.now_ms()
    if state.next_marks.get(queue, 0) >= now_ms:
        return None
    state.next_marks[queue] = now_ms + period_ms
    return now_ms


def mark_consumed(state: MemoryState, queue: str, published_at_ms: int) -> None:
    """Raise the watermark; never past now: a wrong mark must not call fresh messages lost."""
    mark = min(published_at_ms, state.clock.now_ms())
    state.watermarks[queue] = max(state.watermarks.get(queue, 0), mark)


def _up_to(state: MemoryState, of: JobState, score: int, limit: int, queue: str | None = None) -> list[Row]:
    rows = [row for row in state.in_state(of) if row.score <= score and queue in (None, row.job.queue)]
    return rows[: max(0, limit)]


def _expire(state: MemoryState, row: Row, now_ms: int, taken: list[WakeUp]) -> None:
    held = row.hold
    # A message that was heard was not lost, however many were before it.
    row.cause, row.due_at_ms, row.wakeups = ClaimCause.LEASE_EXPIRED, now_ms, 0
    # The token stays: who held the claim may take it back with it, as long as nobody else claims the job.
    token = row.token
    row.drop_lease()
    row.token = token
    if held:
        state.move(row, JobState.HELD, now_ms)
    else:
        taken.append(_wake(state, row, WakeUpCause.LEASE_EXPIRED, now_ms))
    row.alone = True


def _wake(state: MemoryState, row: Row, cause: WakeUpCause, now_ms: int) -> WakeUp:
    state.move(row, JobState.OUTSTANDING, state.lost_after(now_ms, row.wakeups))
    job = row.job
    return WakeUp(job_id=job.job_id, kind=job.kind, queue=job.queue, attempt=row.attempt, cause=cause, alone=row.alone)
