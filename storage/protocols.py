"""
What every back end promises, one protocol per kind of fact. The contract suite runs each line on each back end.

All operations are atomic: they happen whole or not at all, also under concurrent callers. All raise
`StorageUnavailableError` when the store cannot answer; none ever assumes the answer (promise P5).
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Protocol

from reliability.dead_letter import DeadLetterRecord
from reliability.reconciliation import ReconciliationReason, ReconciliationRequest
from storage.jobs import (
    Admission,
    AdmitAndClaimResult,
    Bury,
    Claim,
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
)


class DedupStorage(Protocol):
    """Remember keys for a while."""

    def first_seen(self, key: str) -> bool:
        """
        Mark the key and tell whether this call was the first to do so.

        Of any number of concurrent callers with one key exactly one gets True.
        """
        ...


class JobStorage(Protocol):
    """Keep the ledger: one durable row per job, with attempt numbers and leases, on the store's own clock."""

    def admit(self, job: NewJob) -> Admission:
        """
        Write the row (attempt 0, due now, outstanding) and the dedup mark, unless the id is known.

        Known means: a row in the ledger whatever its age, a dead letter, or a mark within the dedup window. Same
        bytes answer `Duplicate`, other bytes `Conflict`; neither changes anything but the counters.
        """
        ...

    def admit_many(self, jobs: Iterable[NewJob]) -> list[Admission]:
        """
        Admit each job as `admit` does, in order, with one exchange for all of them. Not atomic as a whole.

        The store may work on the first jobs while the iterable makes the next. What it raises comes through, as does
        the refusal of a job; those before may be admitted by then.
        """
        ...

    def admit_and_claim(self, job: NewJob, lease: Lease) -> AdmitAndClaimResult:
        """Admit the job and claim its attempt 0 in one step; a known unfinished job is only claimed."""
        ...

    def claim(self, job_id: str, attempt: int, lease: Lease) -> ClaimResult:
        """
        Take the lease of exactly this attempt if it is due and not leased.

        A row whose lease expired is claimed with cause `LEASE_EXPIRED`, an escalated one with `ESCALATED`. A claim
        raises the row's version. Raises `InvalidInputError` for a lease out of range.
        """
        ...

    def claim_many(self, wanted: Sequence[tuple[str, int]], lease: Lease) -> list[ClaimResult | Exception]:
        """Claim up to 1,024 (id, attempt) pairs with one exchange; an error stands in its place."""
        ...

    def finalized_at_many(self, job_ids: Sequence[str]) -> list[int | None]:
        """Return when each job was finalised, in order, with one exchange; None for one without a row."""
        ...

    def renew(self, claims: Sequence[Claim], lease_ms: int) -> list[bool]:
        """Extend each lease to now + `lease_ms`; False where version or token do not match or it has expired."""
        ...

    def resume(self, claim: Claim, lease_ms: int) -> bool:
        """
        Take back the claim's lease for `lease_ms`, even if it ran out; False if the job was claimed since.

        For an outcome that could not be recorded in time: while nobody has begun the next attempt, this one has not
        failed. A message that woke the job meanwhile finds nothing to claim.
        """
        ...

    def record(self, claim: Claim, transition: Transition) -> None:
        """
        Apply the transition if version, token and lease still hold; else raise `StaleClaimError`, changing nothing.

        `Bury` raises `DeadLetterConflictError` if another record exists for the id. `Await` and a `Reschedule` with
        `pending` raise `CapacityReachedError` when the reconciliation queue is full. Either changes nothing.
        """
        ...

    def record_many(self, outcomes: Sequence[tuple[Claim, Transition]]) -> list[Exception | None]:
        """Record each pair as `record` does with one exchange; an entry's error is returned in its place."""
        ...

    def due(self, limit: int) -> list[WakeUp]:
        """
        Take up to `limit` wake-ups: expired leases, parked rows that are due, rows whose message was lost.

        Each returned row is outstanding afterwards, so of any number of concurrent pumps exactly one publishes it.
        A crash before the publish is found again as a lost message.
        """
        ...

    def next_mark(self, queue: str, period_ms: int) -> int | None:
        """Return the store's time in ms if this caller is to publish the queue's next mark, else None."""
        ...

    def mark_consumed(self, queue: str, published_at_ms: int) -> None:
        """Note that everything published to the queue before this instant has been consumed. Never moves back."""
        ...

    def replay(self, job_id: str) -> WakeUp | None:
        """Turn a dead letter with a kept payload back into a row at attempt 0, outstanding; None if there is none."""
        ...

    def hold(self, job_id: str) -> bool:
        """Stop the job at its next claim; False if it is gone. A running attempt finishes and its retry is held."""
        ...

    def release(self, job_id: str) -> bool:
        """Make a held job due now (parked); False if it is not held."""
        ...

    def cancel(self, job_id: str) -> bool:
        """End a job that is not leased as cancelled; False if it is gone or an attempt is running."""
        ...

    def conclude(self, job_id: str, version: int, transition: Finish | Bury) -> bool:
        """
        End the job by what its receipt says if the row still has this version; False, changing nothing, otherwise.

        An attempt that is running loses its claim: it can record nothing any more.
        """
        ...

    def ending(self, job_id: str) -> FinishedAs | None:
        """Return how a job ended well, as long as the dedup window remembers it; None for any other id."""
        ...

    def get(self, job_id: str) -> JobRow | None:
        """Return the row, or None."""
        ...

    def rows(self, state: JobState, limit: int) -> list[JobRow]:
        """Return up to `limit` rows of a state, soonest due (or longest leased) first."""
        ...

    def counts(self, kind: JobKind) -> LedgerCounts:
        """Count the kind's jobs consistently at one instant."""
        ...

    def now_ms(self) -> int:
        """Return the store's own clock, Unix milliseconds."""
        ...

    def check_writable(self) -> None:
        """
        Do nothing if the store takes writes now; a store that only answers questions is full, or a replica.

        Raises:
            StorageUnavailableError: The store did not answer, or takes no writes.

        """
        ...


class DeadLetterStorage(Protocol):
    """Keep at most one dead letter per receipt, ordered by (finalized_at, receipt_id bytes)."""

    def append(self, record: DeadLetterRecord) -> bool:
        """Store the record: True if new, False if the same bytes are there, `DeadLetterConflictError` for others."""
        ...

    def get(self, receipt_id: str) -> DeadLetterRecord | None:
        """Return the record, None if absent; a row that does not decode raises `InvalidRecordError`."""
        ...

    def list(self, limit: int | None = None, offset: int = 0) -> Sequence[DeadLetterRecord]:
        """Return records in order; one that does not decode or disagrees with its index raises `InvalidRecordError`."""
        ...

    def count(self) -> int:
        """Count the records kept."""
        ...

    def payload(self, receipt_id: str) -> bytes | None:
        """Return the dead job's payload kept for a replay."""
        ...

    def clear(self, receipt_id: str) -> bool:
        """Remove the record and its payload; tell whether there was one. The id may be admitted again afterwards."""
        ...

    def take_unpublished(self, limit: int, retry_after_ms: int) -> Sequence[DeadLetterRecord]:
        """Take records whose feed publication is owed; each comes again after `retry_after_ms` unless `published`."""
        ...

    def published(self, receipt_id: str) -> None:
        """Note that the record reached the dead-letter queue."""
        ...

    def unpublished_count(self) -> int:
        """Count the records whose feed publication is owed."""
        ...


class ReconciliationStorage(Protocol):
    """Keep what was accepted or left unknown, until a receipt resolves it or it grows stale."""

    def enqueue(self, request: ReconciliationRequest) -> bool:
        """Queue the request; False if its key is queued or was resolved; `CapacityReachedError` when full."""
        ...

    def queued_requests(self) -> Sequence[ReconciliationRequest]:
        """Return every queued request, oldest first."""
        ...

    def oldest(self, reason: ReconciliationReason, limit: int) -> Sequence[ReconciliationRequest]:
        """Return up to `limit` requests of one reason, oldest first, by index: the cost follows the number returned."""
        ...

    def find(self, key: str) -> ReconciliationRequest | None:
        """Return the request under this key; None if it is not queued."""
        ...

    def resolve(self, key: str) -> bool:
        """
        Remove the entry and remember its key so that it is not queued again; False if it is not queued.

        A job that still waits for this receipt becomes due as `ESCALATED`: nothing else would ever wake it.
        """
        ...

    def stale_pending(self, created_before: datetime, limit: int = 1000) -> Sequence[ReconciliationRequest]:
        """Return up to `limit` PendingVerification entries created at or before the instant, oldest first, by index."""
        ...

    def escalate(self, key: str, replacement: ReconciliationRequest) -> bool:
        """
        Resolve `key`, queue the replacement and make its job due as `ESCALATED`; False if already resolved.

        Of any number of concurrent callers exactly one gets True.
        """
        ...

    def counts(self) -> dict[str, int]:
        """Count the queued entries by reason tag."""
        ...
