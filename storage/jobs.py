"""
The values that cross the ledger's border: new jobs, claims, transitions, wake-ups, rows and counts.

Nothing here knows a back end. `storage.protocols` says what each operation promises; flows in `tasks` build
transitions and read claims; `worker` reads wake-ups and counts.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from reliability.dead_letter import DeadLetterRecord
from reliability.reconciliation import ReconciliationRequest


class JobKind(StrEnum):
    """Name what a job does; both kinds share one ledger and one id space."""

    SETTLEMENT = "settlement"
    DELIVERY = "delivery"


class JobState(StrEnum):
    """Name the one place a row is in: every row is in exactly one state and in exactly one index."""

    #: A broker message that will wake it is believed to exist.
    OUTSTANDING = "outstanding"
    #: A worker holds a lease and runs its hook.
    LEASED = "leased"
    #: It has no message; the due pump publishes one when it is due.
    PARKED = "parked"
    #: Accepted by the partner; a reconciliation entry waits for the receipt.
    AWAITING = "awaiting"
    #: An operator stopped it; nothing wakes it until it is released.
    HELD = "held"


class ClaimCause(StrEnum):
    """Say why a claimed attempt runs: most run the hook, two only account for what happened before."""

    #: Run the hook.
    DUE = "due"
    #: The worker of this attempt died or lost its lease: count the attempt as failed with code `backend`.
    LEASE_EXPIRED = "lease_expired"
    #: No receipt came in time: verify with the partner if the hook can, else count the attempt as failed.
    ESCALATED = "escalated"


class WakeUpCause(StrEnum):
    """Say why the due pump wakes a row."""

    LEASE_EXPIRED = "lease_expired"
    PARKED = "parked"
    MESSAGE_LOST = "message_lost"


class FinishedAs(StrEnum):
    """Name how a job ended well. Each is a counter in `LedgerCounts.finished`."""

    SETTLED = "settled"
    SKIPPED = "skipped"
    CONFIRMED = "confirmed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """
    Describe a job to be admitted.

    `job_id` is the receipt id of a settlement or `delivery:<partner_id>:<message_id>`; `payload` are the bytes every
    attempt works on; `finalized_at` is in Unix seconds and orders the job in batches and dead-letter listings.
    """

    job_id: str
    kind: JobKind
    queue: str
    payload: bytes
    finalized_at: int

    @property
    def digest(self) -> bytes:
        """Return the SHA-256 of the payload (32 bytes): same id with another digest is a conflict."""
        return hashlib.sha256(self.payload).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """The job is new: its row is written and due now; the caller publishes the first message."""


class DuplicateOf(StrEnum):
    """Say what a duplicate was a duplicate of."""

    IN_LEDGER = "in_ledger"
    FINISHED = "finished"
    DEAD = "dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicate:
    """Same id and same bytes are known already; nothing was changed and nothing is to be published."""

    of: DuplicateOf


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """The same id is known with other bytes; nothing was changed."""


Admission = Admitted | Duplicate | Conflict


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Say who claims and for how long: owner 1..128 bytes, an unguessable token, 1..86,400,000 ms."""

    owner: str
    token: str
    lease_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Hold one attempt of one job. Only its holder may record it, only while the lease is valid."""

    job_id: str
    kind: JobKind
    queue: str
    attempt: int
    version: int
    token: str
    lease_until_ms: int
    payload: bytes
    finalized_at: int
    admitted_at_ms: int
    #: When attempt 0 was first claimed; the elapsed budget counts from here.
    first_attempt_at_ms: int
    cause: ClaimCause = ClaimCause.DUE
    #: Ledger time of the claim, on the store's clock.
    claimed_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NotDue:
    """The attempt is right but early (clocks differ): come back in `remaining_ms`."""

    remaining_ms: int


class Refusal(StrEnum):
    """Say why there was nothing to claim; the message that asked is stale and may end quietly."""

    GONE = "gone"
    LEASED = "leased"
    OTHER_ATTEMPT = "other_attempt"
    AWAITING = "awaiting"
    HELD = "held"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """There was nothing to claim."""

    why: Refusal


ClaimResult = Claim | NotDue | Refused
#: What `admit_and_claim` answers: a duplicate in the ledger is answered by the claim's own result.
AdmitAndClaimResult = ClaimResult | Duplicate | Conflict


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """End the job well: the row and payload go, the dedup mark is refreshed, open reconciliation entries resolve."""

    finished_as: FinishedAs


@dataclass(frozen=True, slots=True, kw_only=True)
class Reschedule:
    """
    Make the job due again in `delay_ms` as attempt `attempt`: the same number when no attempt was spent.

    The next claim of the same number has the same cause as this one: an attempt in which a worker died stays one.

    `publishes` tells whether the caller publishes the message itself (the row becomes outstanding) or leaves it to
    the due pump (the row is parked). `pending` queues a reconciliation entry with it (an indeterminate delivery).
    """

    attempt: int
    delay_ms: int
    publishes: bool
    pending: ReconciliationRequest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bury:
    """End the job as a dead letter: record stored, payload kept for a replay, feed publication owed."""

    record: DeadLetterRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Await:
    """Keep the row without waking it until a receipt comes or the entry is escalated."""

    request: ReconciliationRequest


Transition = Finish | Reschedule | Bury | Await


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeUp:
    """Name one message that the due pump has to publish now."""

    job_id: str
    kind: JobKind
    queue: str
    attempt: int
    cause: WakeUpCause
    #: A worker died in an attempt of this job before: it may have been the job's doing, so others keep away from it.
    alone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """Show one row to operators. Carries no payload and no token."""

    job_id: str
    kind: JobKind
    queue: str
    state: JobState
    attempt: int
    version: int
    due_at_ms: int
    admitted_at_ms: int
    first_attempt_at_ms: int | None
    finalized_at: int
    owner: str | None
    lease_until_ms: int | None
    wakeups: int
    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerCounts:
    """
    Count jobs of one kind. `admitted == sum(finished) + dead + sum(in_flight)` holds at every instant.

    `dead` counts jobs that ended as dead letters and were not replayed (a cleared one stays counted); `duplicates`
    and `conflicts` count refused admissions.
    """

    admitted: int = 0
    duplicates: int = 0
    conflicts: int = 0
    dead: int = 0
    retried: int = 0
    finished: Mapping[FinishedAs, int] = field(default_factory=dict)
    in_flight: Mapping[JobState, int] = field(default_factory=dict)
