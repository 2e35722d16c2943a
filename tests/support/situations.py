"""What the tests of the situations table ask of an outcome."""

from datetime import UTC, datetime, timedelta

from reliability import delivery
from reliability.delivery import DeliveryOutcome, FailureConfirmed, Indeterminate
from reliability.reconciliation import ReconciliationRequest
from reliability.retry import RetryPolicy
from tests.support.partner import RunningPartner, request

NOW = datetime(2026, 3, 1, tzinfo=UTC)
POLICY = RetryPolicy(max_retries=3, initial_backoff_ms=250, backoff_multiplier=2, backoff_cap_ms=60_000)
#: Deadline of an exchange that is stalled on purpose: long enough to connect on a busy machine.
STALLED_S = 0.8


def sent(partner: RunningPartner, steps: str, terms: str = "", *, deadline_s: float = 2.0) -> DeliveryOutcome:
    """Send one message that meets these steps."""
    return partner.hook(steps, terms, deadline_s=deadline_s).send(request())


def indeterminate(outcome: DeliveryOutcome) -> Indeterminate:
    """Take an outcome that must be indeterminate."""
    assert isinstance(outcome, Indeterminate), outcome
    return outcome


def failed(outcome: DeliveryOutcome) -> FailureConfirmed:
    """Take an outcome that must be a confirmed failure."""
    assert isinstance(outcome, FailureConfirmed), outcome
    return outcome


def next_delay(outcome: DeliveryOutcome, *, max_elapsed_s: int | None = None) -> timedelta:
    """Return when the first attempt is repeated."""
    unknown = indeterminate(outcome)
    assert delivery.RetryDecision.from_outcome(unknown).should_retry
    budget = delivery.RetryBudget(max_elapsed=None if max_elapsed_s is None else timedelta(seconds=max_elapsed_s))
    first = delivery.FailedAttempt(attempt=0, first_attempt_at_ms=0, retry_after_ms=unknown.retry_after_ms)
    plan = delivery.plan_retry(POLICY, budget, first, now_ms=0)
    assert isinstance(plan, delivery.NextAttempt)
    return plan.delay


def is_final(outcome: DeliveryOutcome) -> bool:
    """Tell whether nothing is sent again and nothing is waited for."""
    decision = delivery.RetryDecision.from_outcome(outcome)
    return not decision.should_retry and entry_of(outcome) is None


def entry_of(outcome: DeliveryOutcome) -> ReconciliationRequest | None:
    """Return what waits in reconciliation after the outcome."""
    return ReconciliationRequest.for_outcome(outcome, "msg_1", "acme", NOW)
