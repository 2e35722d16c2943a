"""
What a delivery hook's answer means and when a failed delivery runs again.

Pure: time comes in as an argument, nothing is stored. The delivery flow asks `RetryDecision.from_outcome`, then
`plan_retry`; partner rules and hooks build the outcomes.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Self, assert_never

from reliability.errors import InvalidInputError
from reliability.failures import SettlementFailureCode, SettlementFailureReason
from reliability.retry import BACKOFF_CAP_LIMIT_MS, RetryPolicy

_CONFIRMED_FAILURE = SettlementFailureReason.from_detail(SettlementFailureCode.VERIFICATION, "confirmed failure")
_UNKNOWN = SettlementFailureReason.from_detail(SettlementFailureCode.BACKEND, "outcome unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class SuccessConfirmed:
    """The partner confirmed the delivery: a matching MIC, a good disposition, a success status."""

    #: The short name of the rule that led here, such as "status.200"; for logs and explanations, never payload.
    rule: str = ""
    #: SHA-256 hex of what the partner answered, empty where nothing was kept.
    evidence_sha256: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureConfirmed:
    """The partner confirmed the failure, so no repeat will help: an error disposition, a MIC mismatch, a 410."""

    reason: SettlementFailureReason = field(default=_CONFIRMED_FAILURE, kw_only=False)
    rule: str = ""
    #: The partner wants no more deliveries at this address: the others wait until somebody looks into it.
    disables_endpoint: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Indeterminate:
    """Nobody knows whether the partner has it."""

    reason: SettlementFailureReason = field(default=_UNKNOWN, kw_only=False)
    rule: str = ""
    #: What the partner asked for with Retry-After, in milliseconds; None where it asked for nothing.
    retry_after_ms: int | None = None
    #: The request never left, so there is nothing to reconcile.
    not_sent: bool = False
    #: False for an answer that says "slow down" instead of "I am broken", such as 429.
    counts_for_breaker: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedPendingVerification:
    """The transport took it; the receipt is still to come."""

    rule: str = ""


DeliveryOutcome = SuccessConfirmed | FailureConfirmed | Indeterminate | AcceptedPendingVerification


class RetryClass(StrEnum):
    """Name what is known after an attempt."""

    #: Success or failure is certain.
    PERMANENT = "permanent"
    INDETERMINATE = "indeterminate"
    PENDING_VERIFICATION = "pending_verification"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryDecision:
    """Say what class an outcome is in and whether the same bytes are sent again."""

    retry_class: RetryClass
    should_retry: bool

    @classmethod
    def from_outcome(cls, outcome: DeliveryOutcome) -> Self:
        """Decide by the outcome alone; attempts and budgets come later, in `plan_retry`."""
        match outcome:
            case SuccessConfirmed() | FailureConfirmed():
                return cls(retry_class=RetryClass.PERMANENT, should_retry=False)
            case Indeterminate():
                return cls(retry_class=RetryClass.INDETERMINATE, should_retry=True)
            case AcceptedPendingVerification():
                return cls(retry_class=RetryClass.PENDING_VERIFICATION, should_retry=False)
            case _:
                assert_never(outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryBudget:
    """Bound the time from a delivery's first attempt to its last; None bounds attempts only."""

    max_elapsed: timedelta | None = None

    def __post_init__(self) -> None:
        if self.max_elapsed is not None and self.max_elapsed < timedelta():
            raise InvalidInputError("max_elapsed", "expected no time or more, got a negative duration")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedAttempt:
    """Hold what is known of the attempt that just ended indeterminate."""

    #: Zero-based number of the attempt.
    attempt: int
    first_attempt_at_ms: int
    #: What the partner asked for; None where it asked for nothing.
    retry_after_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NextAttempt:
    """Send again as `attempt`, after `delay`."""

    attempt: int
    delay: timedelta


class Exhausted(StrEnum):
    """Name the bound that ended a delivery: it becomes a dead letter now."""

    ATTEMPTS = "attempts"
    ELAPSED = "elapsed"


RetryPlan = NextAttempt | Exhausted


def plan_retry(policy: RetryPolicy, budget: RetryBudget, failed: FailedAttempt, now_ms: int) -> RetryPlan:
    """
    Plan the next attempt: wait max(backoff, Retry-After), never past the budget.

    A backoff that would fall past the elapsed budget ends the delivery now. A Retry-After that would is cut to the
    budget's end, so the partner is asked once more; without a budget it is cut to the longest backoff there is.
    """
    if failed.attempt >= policy.max_retries:
        return Exhausted.ATTEMPTS
    backoff = policy.backoff_for(failed.attempt)
    remaining = _remaining(budget, failed, now_ms)
    if remaining is not None and backoff > remaining:
        return Exhausted.ELAPSED
    longest = timedelta(milliseconds=BACKOFF_CAP_LIMIT_MS) if remaining is None else remaining
    wished_ms = min(failed.retry_after_ms or 0, longest // timedelta(milliseconds=1))
    return NextAttempt(attempt=failed.attempt + 1, delay=max(backoff, timedelta(milliseconds=wished_ms)))


def _remaining(budget: RetryBudget, failed: FailedAttempt, now_ms: int) -> timedelta | None:
    if budget.max_elapsed is None:
        return None
    # A clock set back must not lengthen the budget.
    elapsed_ms = max(0, now_ms - failed.first_attempt_at_ms)
    return budget.max_elapsed - timedelta(milliseconds=elapsed_ms)
