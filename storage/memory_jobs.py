"""
The ledger in one process's memory, for tests and examples: the same promises as on Redis, gone with the process.

Values out of range are refused first; each operation then holds one lock. `memory_recording` applies transitions,
`memory_pump` takes wake-ups.
"""

from collections.abc import Iterable, Sequence

from reliability.errors import ChioError
from storage import dedup_mark, limits, memory_admission, memory_pump, memory_recording
from storage.jobs import (
    Admission,
    AdmitAndClaimResult,
    Admitted,
    Bury,
    Claim,
    ClaimCause,
    ClaimResult,
    Finish,
    FinishedAs,
    JobKind,
    JobRow,
    JobState,
    Lease,
    LedgerCounts,
    NewJob,
    Transition,
    WakeUp,
    WakeUpCause,
)
from storage.memory_state import MemoryState


class InMemoryJobStorage:
    """Keep the ledger in a state that the memory stores of dead letters and reconciliation may share."""

    def __init__(self, state: MemoryState | None = None) -> None:
        self._state = state or MemoryState()

    def admit(self, job: NewJob) -> Admission:
        """Write the row and the dedup mark unless the id is known."""
        limits.check_job(job)
        with self._state.lock:
            return memory_admission.admit(self._state, job)

    def admit_many(self, jobs: Iterable[NewJob]) -> list[Admission]:
        """Admit each job in order."""
        made = list(jobs)
        for job in made:
            limits.check_job(job)
        return [self.admit(job) for job in made]

    def admit_and_claim(self, job: NewJob, lease: Lease) -> AdmitAndClaimResult:
        """Admit the job and claim its attempt 0 in one step; a known unfinished job is only claimed."""
        limits.check_job(job)
        limits.check_lease(lease)
        with self._state.lock:
            row = self._state.rows.get(job.job_id)
            if row is None or row.digest != job.digest:
                admission = memory_admission.admit(self._state, job)
                if not isinstance(admission, Admitted):
                    return admission
            return memory_admission.claim(self._state, job.job_id, 0, lease)

    def claim(self, job_id: str, attempt: int, lease: Lease) -> ClaimResult:
        """Take the lease of exactly this attempt if it is due and not leased."""
        limits.check_attempt(attempt)
        limits.check_lease(lease)
        with self._state.lock:
            return memory_admission.claim(self._state, job_id, attempt, lease)

    def claim_many(self, wanted: Sequence[tuple[str, int]], lease: Lease) -> list[ClaimResult | Exception]:
        """Claim up to 1,024 attempts."""
        limits.check_batch(wanted)
        limits.check_lease(lease)
        for _, attempt in wanted:
            limits.check_attempt(attempt)
        return [self.claim(job_id, attempt, lease) for job_id, attempt in wanted]

    def finalized_at_many(self, job_ids: Sequence[str]) -> list[int | None]:
        """Return when each job was finalised."""
        limits.check_batch(job_ids)
        with self._state.lock:
            rows = [self._state.rows.get(job_id) for job_id in job_ids]
            return [row.job.finalized_at if row else None for row in rows]

    def renew(self, claims: Sequence[Claim], lease_ms: int) -> list[bool]:
        """Extend each lease that still holds."""
        limits.check_batch(claims)
        limits.check_lease_ms(lease_ms)
        with self._state.lock:
            now_ms = self._state.clock.now_ms()
            return [memory_recording.renew(self._state, claim, now_ms, lease_ms) for claim in claims]

    def resume(self, claim: Claim, lease_ms: int) -> bool:
        """Take back a lease that ran out, if nobody has claimed the job since."""
        limits.check_lease_ms(lease_ms)
        with self._state.lock:
            return memory_recording.resume(self._state, claim, self._state.clock.now_ms(), lease_ms)

    def record(self, claim: Claim, transition: Transition) -> None:
        """Apply the transition if the claim still holds."""
        limits.check_transition(claim, transition)
        with self._state.lock:
            memory_recording.record(self._state, claim, transition)

    def record_many(self, outcomes: Sequence[tuple[Claim, Transition]]) -> list[Exception | None]:
        """Record each pair; an entry's error is returned in its place."""
        limits.check_batch(outcomes)
        return [self._error_of(claim, transition) for claim, transition in outcomes]

    def due(self, limit: int) -> list[WakeUp]:
        """Take up to `limit` wake-ups."""
        limits.check_limit(limit)
        with self._state.lock:
            return memory_pump.due(self._state, limit)

    def next_mark(self, queue: str, period_ms: int) -> int | None:
        """Return the time if this caller is to publish the queue's next mark."""
        limits.check_range("period_ms", period_ms, 1, limits.MAX_DELAY_MS)
        with self._state.lock:
            return memory_pump.next_mark(self._state, queue, period_ms)

    def mark_consumed(self, queue: str, published_at_ms: int) -> None:
        """Raise the queue's watermark; never lower it."""
        limits.check_instant_ms("published_at_ms", published_at_ms)
        with self._state.lock:
            memory_pump.mark_consumed(self._state, queue, published_at_ms)

    def replay(self, job_id: str) -> WakeUp | None:
        """Turn a dead letter with a kept payload back into a row at attempt 0."""
        with self._state.lock:
            job = self._state.dead.jobs.get(job_id)
            version = self._state.dead.versions.get(job_id, 0)
            if job is None or job_id in self._state.rows or not self._state.dead.remove(job_id):
                return None
            self._state.write_row(job, job.digest, self._state.clock.now_ms(), version)
            self._state.counters[job.kind]["dead"] -= 1
            return WakeUp(job_id=job_id, kind=job.kind, queue=job.queue, attempt=0, cause=WakeUpCause.PARKED)

    def hold(self, job_id: str) -> bool:
        """Stop the job at its next claim."""
        with self._state.lock:
            row = self._state.rows.get(job_id)
            if row is None:
                return False
            if row.state is JobState.LEASED:
                row.hold = True
                return True
            if row.state is JobState.AWAITING:
                row.cause = ClaimCause.ESCALATED
            self._state.move(row, JobState.HELD, row.due_at_ms)
            return True

    def release(self, job_id: str) -> bool:
        """Make a held job due now; take back the hold of a job that is still running."""
        with self._state.lock:
            row = self._state.rows.get(job_id)
            if row is not None and row.state is JobState.LEASED:
                held, row.hold = row.hold, False
                return held
            if row is None or row.state is not JobState.HELD:
                return False
            row.due_at_ms = self._state.clock.now_ms()
            self._state.move(row, JobState.PARKED, row.due_at_ms)
            return True

    def cancel(self, job_id: str) -> bool:
        """End a job that is not leased as cancelled."""
        with self._state.lock:
            row, now_ms = self._state.rows.get(job_id), self._state.clock.now_ms()
            if row is None or memory_admission.is_running(row, now_ms):
                return False
            memory_recording.end(self._state, row, Finish(finished_as=FinishedAs.CANCELLED), now_ms)
            return True

    def conclude(self, job_id: str, version: int, transition: Finish | Bury) -> bool:
        """End the job by what its receipt says if the row still has this version."""
        limits.check_conclusion(job_id, transition)
        with self._state.lock:
            row = self._state.rows.get(job_id)
            if row is None or row.version != version:
                return False
            memory_recording.end(self._state, row, transition, self._state.clock.now_ms())
            return True

    def ending(self, job_id: str) -> FinishedAs | None:
        """Return how a job ended well, as long as the dedup window remembers it."""
        with self._state.lock:
            mark = self._state.marks.get(job_id, self._state.clock.now_ms())
        return dedup_mark.ending_of(mark) if mark else None

    def get(self, job_id: str) -> JobRow | None:
        """Return the row, or None."""
        with self._state.lock:
            row = self._state.rows.get(job_id)
            return row.shown() if row else None

    def rows(self, state: JobState, limit: int) -> list[JobRow]:
        """Return up to `limit` rows of a state in the order of its index."""
        limits.check_limit(limit)
        with self._state.lock:
            return [row.shown() for row in self._state.in_state(state)[:limit]]

    def counts(self, kind: JobKind) -> LedgerCounts:
        """Count the kind's jobs at one instant."""
        with self._state.lock:
            counter = self._state.counters[kind]
            return LedgerCounts(
                admitted=counter["admitted"],
                duplicates=counter["duplicates"],
                conflicts=counter["conflicts"],
                dead=counter["dead"],
                retried=counter["retried"],
                finished={end: counter[end] for end in FinishedAs},
                in_flight={state: counter[state] for state in JobState},
            )

    def now_ms(self) -> int:
        """Return the clock, Unix milliseconds."""
        return self._state.clock.now_ms()

    def check_writable(self) -> None:
        """Do nothing: memory takes writes as long as the process lives."""

    def _error_of(self, claim: Claim, transition: Transition) -> Exception | None:
        try:
            self.record(claim, transition)
        except ChioError as error:
            return error
        return None
