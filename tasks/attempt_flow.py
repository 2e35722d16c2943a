"""
What both flows offer: a whole attempt at once, or its two halves around the hook, so that a batch can ask for many.

A flow begins a claim with what comes before the hook, somebody asks the hook, and the flow concludes what its answer
means. `run` is the three in a row. Single attempts and batches take the same road.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from reliability.errors import StorageUnavailableError
from reliability.failures import SettlementFailureCode, SettlementFailureReason
from storage.jobs import Claim
from tasks import crash_points, steps
from tasks.crash_points import CrashPoint

#: A step that met an unreachable store comes again after this, spending no attempt.
UNREACHABLE_DELAY_MS = 5_000
#: Why an attempt failed whose worker died or lost its lease.
LEASE_EXPIRED = SettlementFailureReason.from_detail(SettlementFailureCode.BACKEND, "lease expired")
#: Why an attempt failed whose receipt never came.
NO_RECEIPT = SettlementFailureReason.from_detail(SettlementFailureCode.BACKEND, "no receipt in time")

SubjectT_co = TypeVar("SubjectT_co", covariant=True)


class Question(Protocol[SubjectT_co]):
    """Hold a claim whose hook is to be asked, and what it is to be asked about."""

    @property
    def claim(self) -> Claim:
        """Return the claim."""
        ...

    @property
    def subject(self) -> SubjectT_co:
        """Return what the hook gets."""
        ...


QuestionT = TypeVar("QuestionT", bound=Question[object])


class AttemptFlow(Protocol[QuestionT]):
    """Tell the story of one attempt of one kind of job."""

    @property
    def asks_many(self) -> Callable[[Sequence[QuestionT]], Sequence[object]] | None:
        """Return what asks the hook for many with one call; None where it offers none."""
        ...

    @property
    def asks_async(self) -> Callable[[QuestionT], Awaitable[object]] | None:
        """Return what asks the hook on its loop; None where it offers none."""
        ...

    def run(self, claim: Claim) -> steps.Step:
        """Run the whole attempt. Raises `StorageUnavailableError` where nothing was sent and no attempt is spent."""
        ...

    def begin_many(self, claims: Sequence[Claim]) -> Sequence[steps.Step | QuestionT]:
        """Do what comes before the hook for each; a step where the hook is not asked. Raises as `run`, for all."""
        ...

    def conclude_many(self, answered: Sequence[tuple[QuestionT, object]]) -> Sequence[steps.Step]:
        """Say what follows each of the hook's answers, which may be the exceptions it raised."""
        ...


def attempted(run: Callable[[Claim], steps.Step], claim: Claim) -> steps.Step:
    """Run the attempt; one that met an unreachable store comes again, with none spent."""
    crash_points.reach(CrashPoint.BEFORE_HOOK)
    try:
        step = run(claim)
    except StorageUnavailableError:
        # Flows ask the store only before they send, so nothing left.
        return unreachable(claim)
    crash_points.reach(CrashPoint.AFTER_HOOK)
    return step


def unreachable(claim: Claim) -> steps.Step:
    """Return the step of an attempt that could not begin because the store did not answer."""
    return steps.Defer(attempt=claim.attempt, delay_ms=UNREACHABLE_DELAY_MS, why="store unreachable")
