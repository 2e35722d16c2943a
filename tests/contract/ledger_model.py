"""
The ledger as simple as it can be told: what each operation has to answer, in minutes since the model began.

Durations are chosen so that the real clock, which runs on during a test, never decides: time passes in whole minutes,
and what has to be over at a minute is over from then on.
"""

from collections import Counter
from dataclasses import dataclass, field

from storage.jobs import ClaimCause, JobState

MINUTE_MS = 60_000
LEASE_MIN = 2
SLACK_MIN = 1
DEDUP_MIN = 7.5


@dataclass(slots=True)
class ModelJob:
    """Hold one row."""

    payload: bytes
    due: float
    lost_from: float
    state: JobState = JobState.OUTSTANDING
    attempt: int = 0
    version: int = 0
    token: str = ""
    lease_until: float = 0
    hold: bool = False
    cause: ClaimCause = ClaimCause.DUE
    wakeups: int = 0


@dataclass(slots=True)
class Model:
    """Hold the whole ledger and predict it."""

    now: float = 0
    watermark: float = -1
    jobs: dict[str, ModelJob] = field(default_factory=dict)
    dead: dict[str, ModelJob] = field(default_factory=dict)
    marks: dict[str, tuple[float, bytes]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def known(self, job_id: str) -> bytes | None:
        """Return the payload the id is known with, None for a new id."""
        if job := self.jobs.get(job_id):
            return job.payload
        if job_id in self.dead:
            return self.dead[job_id].payload
        until, payload = self.marks.get(job_id, (-1.0, b""))
        return payload if self.now < until else None

    def admit(self, job_id: str, payload: bytes) -> str:
        """Predict the admission and carry it out."""
        known = self.known(job_id)
        if known is None:
            self.counts["admitted"] += 1
            self._add(job_id, payload)
            return "admitted"
        answer = "duplicates" if known == payload else "conflicts"
        self.counts[answer] += 1
        return answer

    def claim(self, job_id: str, attempt: int, token: str) -> ClaimCause | None:
        """Predict whether the attempt is claimed and why; carry it out."""
        job = self.jobs.get(job_id)
        if job is None or job.attempt != attempt or not self._is_claimable(job):
            return None
        cause = ClaimCause.LEASE_EXPIRED if job.state is JobState.LEASED else job.cause
        job.cause = cause
        job.state, job.token, job.lease_until = JobState.LEASED, token, self.now + LEASE_MIN
        job.version += 1
        return cause

    def holds(self, job_id: str, token: str) -> bool:
        """Predict whether the claim with this token may be recorded."""
        job = self.jobs.get(job_id)
        leased = job is not None and job.state is JobState.LEASED and self.now < job.lease_until
        return job is not None and leased and job.token == token

    def resume(self, job_id: str, token: str) -> bool:
        """Predict whether the claim with this token is taken back, and take it back."""
        job = self.jobs.get(job_id)
        if job is None or job.token != token:
            return False
        job.hold = job.hold or job.state is JobState.HELD
        job.state, job.lease_until, job.cause = JobState.LEASED, self.now + LEASE_MIN, ClaimCause.DUE
        return True

    def due(self) -> set[str]:
        """Predict which rows are taken, and take them."""
        taken = {job_id for job_id, job in self.jobs.items() if self._is_due(job)}
        for job_id in taken:
            job = self.jobs[job_id]
            job.wakeups += job.state is JobState.OUTSTANDING
            job.state, job.lost_from = JobState.OUTSTANDING, self.now + SLACK_MIN * 2 ** min(job.wakeups, 5)
        return taken

    def reschedule(self, job_id: str, attempt: int, delay: float, state: JobState, cause: ClaimCause) -> None:
        """Make the row due later."""
        job = self.jobs[job_id]
        self.counts["retried"] += attempt != job.attempt
        job.cause = cause if attempt == job.attempt else ClaimCause.DUE
        job.attempt, job.due, job.lost_from = attempt, self.now + delay, self.now + delay + SLACK_MIN
        job.token = ""
        job.state, job.wakeups = (JobState.HELD if job.hold else state), 0
        job.hold = False

    def wait(self, job_id: str) -> None:
        """Let the row wait for its receipt."""
        job = self.jobs[job_id]
        job.due, job.wakeups, job.token = self.now, 0, ""
        job.state, job.cause = (
            (JobState.HELD, ClaimCause.ESCALATED) if job.hold else (JobState.AWAITING, ClaimCause.DUE)
        )
        job.hold = False

    def wake_awaiting(self, job_id: str) -> None:
        """Make the row due if it waits for its receipt."""
        job = self.jobs.get(job_id)
        if job and job.state is JobState.AWAITING:
            job.state, job.due, job.cause = JobState.PARKED, self.now, ClaimCause.ESCALATED

    def end(self, job_id: str, counter: str) -> None:
        """Take the row out."""
        job = self.jobs.pop(job_id)
        self.marks[job_id] = (self.now + DEDUP_MIN, job.payload)
        self.counts[counter] += 1
        if counter == "dead":
            self.dead[job_id] = job

    def hold_job(self, job_id: str) -> bool:
        """Stop the row."""
        job = self.jobs.get(job_id)
        if job is None:
            return False
        if job.state is JobState.LEASED:
            job.hold = True
            return True
        if job.state is JobState.AWAITING:
            job.cause = ClaimCause.ESCALATED
        job.state = JobState.HELD
        return True

    def release(self, job_id: str) -> bool:
        """Let the row go on."""
        job = self.jobs.get(job_id)
        if job is None or not (job.hold or job.state is JobState.HELD):
            return False
        if job.state is JobState.HELD:
            job.state, job.due = JobState.PARKED, self.now
        job.hold = False
        return True

    def cancel(self, job_id: str) -> bool:
        """End the row unless it runs."""
        job = self.jobs.get(job_id)
        if job is None or (job.state is JobState.LEASED and self.now < job.lease_until):
            return False
        self.end(job_id, "cancelled")
        return True

    def replay(self, job_id: str) -> bool:
        """Bring a dead job back."""
        if job_id not in self.dead:
            return False
        self.counts["dead"] -= 1
        died = self.dead.pop(job_id)
        self._add(job_id, died.payload)
        self.jobs[job_id].version = died.version
        return True

    def clear(self, job_id: str) -> bool:
        """Forget a dead job."""
        self.marks.pop(job_id, None) if job_id in self.dead else None
        return self.dead.pop(job_id, None) is not None

    def in_flight(self) -> dict[JobState, int]:
        """Count the rows of each state."""
        return {state: sum(job.state is state for job in self.jobs.values()) for state in JobState}

    def _add(self, job_id: str, payload: bytes) -> None:
        self.jobs[job_id] = ModelJob(payload=payload, due=self.now, lost_from=self.now + SLACK_MIN)
        self.marks[job_id] = (self.now + DEDUP_MIN, payload)

    def _is_claimable(self, job: ModelJob) -> bool:
        if job.state is JobState.LEASED:
            return self.now >= job.lease_until and not job.hold
        return job.state in {JobState.OUTSTANDING, JobState.PARKED} and self.now >= job.due

    def _is_due(self, job: ModelJob) -> bool:
        match job.state:
            case JobState.LEASED if self.now >= job.lease_until:
                job.due, job.cause, job.wakeups = self.now, ClaimCause.LEASE_EXPIRED, 0
                job.state = JobState.HELD if job.hold else JobState.PARKED
                was_held, job.hold = job.hold, False
                return not was_held
            case JobState.PARKED:
                return self.now >= job.due
            case JobState.OUTSTANDING:
                return self.watermark >= job.lost_from
            case _:
                return False
