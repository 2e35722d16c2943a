"""What a delivery's outcome means and when the next attempt runs."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reliability.delivery import (
    AcceptedPendingVerification,
    DeliveryOutcome,
    Exhausted,
    FailedAttempt,
    FailureConfirmed,
    Indeterminate,
    NextAttempt,
    RetryBudget,
    RetryClass,
    RetryDecision,
    RetryPlan,
    SuccessConfirmed,
    plan_retry,
)
from reliability.errors import InvalidInputError
from reliability.failures import SettlementFailureCode, SettlementFailureReason
from reliability.retry import RetryPolicy

FIRST_ATTEMPT_AT_MS = 1_700_000_000_000
#: 1 s, 10 s, 100 s, 100 s.
POLICY = RetryPolicy(max_retries=4, initial_backoff_ms=1000, backoff_multiplier=10, backoff_cap_ms=100_000)
NO_BUDGET = RetryBudget()


def plan(
    attempt: int,
    *,
    elapsed_ms: int = 0,
    max_elapsed_ms: int | None = None,
    retry_after_ms: int | None = None,
) -> RetryPlan:
    """Plan the retry of an attempt that ended so long after the first one began."""
    budget = NO_BUDGET if max_elapsed_ms is None else RetryBudget(max_elapsed=timedelta(milliseconds=max_elapsed_ms))
    failed = FailedAttempt(attempt=attempt, first_attempt_at_ms=FIRST_ATTEMPT_AT_MS, retry_after_ms=retry_after_ms)
    return plan_retry(POLICY, budget, failed, FIRST_ATTEMPT_AT_MS + elapsed_ms)


def after_ms(attempt: int, delay_ms: int) -> NextAttempt:
    """Name the next attempt and its delay."""
    return NextAttempt(attempt=attempt, delay=timedelta(milliseconds=delay_ms))


@pytest.mark.parametrize(
    "outcome, retry_class, should_retry",
    [
        (SuccessConfirmed(), RetryClass.PERMANENT, False),
        (FailureConfirmed(), RetryClass.PERMANENT, False),
        (Indeterminate(), RetryClass.INDETERMINATE, True),
        (Indeterminate(not_sent=True, counts_for_breaker=False, retry_after_ms=5), RetryClass.INDETERMINATE, True),
        (AcceptedPendingVerification(), RetryClass.PENDING_VERIFICATION, False),
    ],
)
def test_decision_follows_the_documented_table(
    outcome: DeliveryOutcome,
    retry_class: RetryClass,
    should_retry: bool,
) -> None:
    """Each outcome has the class and the retry decision of its row."""
    decision = RetryDecision.from_outcome(outcome)

    assert decision == RetryDecision(retry_class=retry_class, should_retry=should_retry)


def test_a_failure_takes_its_reason_first() -> None:
    """The reason of a failed or unknown outcome may be given without its name."""
    reason = SettlementFailureReason.from_detail(SettlementFailureCode.UNSUPPORTED, "status 415")

    assert FailureConfirmed(reason).reason == reason
    assert Indeterminate(reason, rule="status.415").reason == reason


@pytest.mark.parametrize(
    "attempt, plan_expected",
    [
        (0, after_ms(1, 1000)),
        (1, after_ms(2, 10_000)),
        (2, after_ms(3, 100_000)),
        (3, after_ms(4, 100_000)),
        (4, Exhausted.ATTEMPTS),
        (2**32 - 1, Exhausted.ATTEMPTS),
    ],
)
def test_attempts_are_bounded_by_the_policy(attempt: int, plan_expected: RetryPlan) -> None:
    """Without a time budget the policy's backoffs and attempts decide alone."""
    assert plan(attempt, elapsed_ms=10**9) == plan_expected


@pytest.mark.parametrize(
    "elapsed_ms, plan_expected",
    [
        (0, after_ms(2, 10_000)),
        (20_000, after_ms(2, 10_000)),
        (20_001, Exhausted.ELAPSED),
        (30_000, Exhausted.ELAPSED),
        (10**9, Exhausted.ELAPSED),
        (-5000, after_ms(2, 10_000)),
    ],
)
def test_a_retry_past_the_elapsed_budget_ends_the_delivery(elapsed_ms: int, plan_expected: RetryPlan) -> None:
    """A backoff that would end after 30 s since the first attempt is a dead letter now; one that fits runs."""
    assert plan(1, elapsed_ms=elapsed_ms, max_elapsed_ms=30_000) == plan_expected


@pytest.mark.parametrize(
    "retry_after_ms, max_elapsed_ms, delay_ms",
    [
        (None, None, 10_000),
        (0, None, 10_000),
        (9999, None, 10_000),
        (120_000, None, 120_000),
        (120_000, 600_000, 120_000),
        (120_000, 60_000, 60_000),
        (10**12, 60_000, 60_000),
        (10**12, None, 86_400_000),
        (10**12, 200_000_000, 200_000_000),
    ],
)
def test_retry_after_lengthens_the_wait_within_the_budget(
    retry_after_ms: int | None, max_elapsed_ms: int | None, delay_ms: int
) -> None:
    """The wait is max(backoff, Retry-After), cut to what remains of the budget, or to a day where there is none."""
    assert plan(1, retry_after_ms=retry_after_ms, max_elapsed_ms=max_elapsed_ms) == after_ms(2, delay_ms)


def test_a_budget_without_time_ends_after_the_first_attempt() -> None:
    """A budget of nothing allows no retry at all."""
    assert plan(0, max_elapsed_ms=0) is Exhausted.ELAPSED


def test_a_negative_budget_is_refused() -> None:
    """A budget is no time or more."""
    with pytest.raises(InvalidInputError, match="max_elapsed"):
        RetryBudget(max_elapsed=timedelta(seconds=-1))


@given(
    attempt=st.integers(0, 5),
    elapsed_ms=st.integers(0, 10**9),
    max_elapsed_ms=st.none() | st.integers(0, 10**9),
    retry_after_ms=st.none() | st.integers(0, 10**15),
)
def test_a_planned_retry_keeps_every_bound(
    attempt: int, elapsed_ms: int, max_elapsed_ms: int | None, retry_after_ms: int | None
) -> None:
    """A planned retry is one attempt more, no earlier than its backoff and no later than the budget or a day."""
    planned = plan(attempt, elapsed_ms=elapsed_ms, max_elapsed_ms=max_elapsed_ms, retry_after_ms=retry_after_ms)

    if isinstance(planned, NextAttempt):
        latest_ms = 86_400_000 if max_elapsed_ms is None else max_elapsed_ms - elapsed_ms
        assert planned.attempt == attempt + 1 <= POLICY.max_retries
        assert POLICY.backoff_for(attempt) <= planned.delay <= timedelta(milliseconds=latest_ms)
