"""
What the memory back ends share: rows, dead letters and reconciliation entries under one lock.

One lock makes a transition that touches all three as atomic as a script is on Redis. Everything here expects the
caller to hold it.
"""

import threading
from collections import Counter
from dataclasses import dataclass, field

from reliability.clock import Clock, SystemClock
from storage.jobs import ClaimCause, JobKind, JobRow, JobState, NewJob
from storage.memory_entries import EntryTable
from storage.memory_marks import ExpiringMarks
from storage.options import LedgerOptions

#: A wake-up doubles the slack, up to 2^5 times: a queue that is emptied again and again costs a job a minute at most.
_MOST_DOUBLINGS = 5


@dataclass(slots=True, kw_only=True)
class Row:
    """Hold one job of the ledger; `score` is its place in the index that `state` names."""

    job: NewJob
    digest: bytes
    admitted_at_ms: int
    due_at_ms: int
    score: int
    state: JobState = JobState.OUTSTANDING
    attempt: int = 0
    version: int = 0
    first_attempt_at_ms: int | None = None
    owner: str | None = None
    token: str | None = None
    lease_until_ms: int | None = None
    wakeups: int = 0
    cause: ClaimCause = ClaimCause.DUE
    #: The operator wants it held when its running attempt ends.
    hold: bool = False
    #: A worker died in one of its attempts.
    alone: bool = False

    @property
    def order(self) -> tuple[int, bytes]:
        """Return the row's place in its index: score, then the id's bytes."""
        return (self.score, self.job.job_id.encode())

    def drop_lease(self) -> None:
        """Forget who ran it."""
        self.owner = self.token = self.lease_until_ms = None
        self.hold = False

    def shown(self) -> JobRow:
        """Return what operators see of it."""
        return JobRow(
            job_id=self.job.job_id,
            kind=self.job.kind,
            queue=self.job.queue,
            state=self.state,
            attempt=self.attempt,
            version=self.version,
            due_at_ms=self.due_at_ms,
            admitted_at_ms=self.admitted_at_ms,
            first_attempt_at_ms=self.first_attempt_at_ms,
            finalized_at=self.job.finalized_at,
            owner=self.owner,
            lease_until_ms=self.lease_until_ms,
            wakeups=self.wakeups,
            digest=self.digest,
        )


@dataclass(slots=True)
class DeadTable:
    """Hold dead letters, the jobs behind them, and when each may be published next."""

    records: dict[str, bytes] = field(default_factory=dict)
    finalized_at: dict[str, int] = field(default_factory=dict)
    unpublished: dict[str, int] = field(default_factory=dict)
    jobs: dict[str, NewJob] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)

    def remove(self, receipt_id: str) -> bool:
        """Drop the record and all that hangs on it."""
        for table in (self.finalized_at, self.unpublished, self.jobs, self.versions):
            table.pop(receipt_id, None)
        return self.records.pop(receipt_id, None) is not None


class MemoryState:
    """Hold everything, with the clock and the options."""

    def __init__(self, clock: Clock | None = None, options: LedgerOptions | None = None) -> None:
        self.lock = threading.Lock()
        self.clock = clock or SystemClock()
        self.options = options or LedgerOptions()
        self.rows: dict[str, Row] = {}
        self.marks = ExpiringMarks[bytes](self.options.dedup_ttl_s * 1_000)
        self.watermarks: dict[str, int] = {}
        self.next_marks: dict[str, int] = {}
        self.counters: dict[JobKind, Counter[str]] = {kind: Counter() for kind in JobKind}
        self.dead = DeadTable()
        self.entries = EntryTable(self.options.reconciliation_capacity, self.options.resolved_ttl_s * 1_000)

    def lost_after(self, from_ms: int, wakeups: int) -> int:
        """Return the instant past which the watermark tells that a message published or due then was lost."""
        return from_ms + (self.options.lost_message_slack_ms << min(wakeups, _MOST_DOUBLINGS))

    def write_row(self, job: NewJob, digest: bytes, now_ms: int, version: int = 0) -> None:
        """Add a row at attempt 0, due now and outstanding."""
        score = self.lost_after(now_ms, 0)
        row = Row(job=job, digest=digest, admitted_at_ms=now_ms, due_at_ms=now_ms, score=score, version=version)
        self.rows[job.job_id] = row
        self.watermarks.setdefault(job.queue, 0)
        self.counters[job.kind][row.state] += 1

    def move(self, row: Row, state: JobState, score: int) -> None:
        """Put the row into another state's index."""
        counter = self.counters[row.job.kind]
        counter[row.state] -= 1
        counter[state] += 1
        row.state, row.score = state, score

    def drop_row(self, row: Row, counted_as: str) -> None:
        """Take the row out and count how it ended."""
        del self.rows[row.job.job_id]
        counter = self.counters[row.job.kind]
        counter[row.state] -= 1
        counter[counted_as] += 1

    def in_state(self, state: JobState) -> list[Row]:
        """Return the rows of a state in the order of its index."""
        return sorted((row for row in self.rows.values() if row.state is state), key=lambda row: row.order)
