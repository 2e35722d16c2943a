"""The story of one settlement attempt, told without Celery and without Redis."""

from collections.abc import Callable

import pytest

from reliability import errors, outcomes
from reliability.failures import SettlementFailureCode, SettlementFailureReason, SettlementSkipReason
from reliability.reconciliation import ReconciliationReason
from reliability.retry import RetryPolicy
from reliability.settlement import SettlementObservation
from storage.jobs import Claim, ClaimCause, FinishedAs
from tasks import steps
from tasks.settlement_flow import SettlementFlow
from tests.support.claims import settlement_claim
from tests.support.clock import ManualClock

POLICY = RetryPolicy(max_retries=2, initial_backoff_ms=100, backoff_multiplier=2, backoff_cap_ms=1_000)
RPC = SettlementFailureReason.from_detail(SettlementFailureCode.RPC, "connection refused")


class Hook:
    """Answer what the test says, and remember what was asked."""

    def __init__(self, answer: Callable[[], object]) -> None:
        self.answer = answer
        self.asked: list[SettlementObservation] = []

    def observe(self, observation: SettlementObservation) -> outcomes.SettlementResult:
        self.asked.append(observation)
        return self.answer()  # type: ignore[return-value]  # some tests answer what no hook may


class VerifyingHook(Hook):
    """Answer a status check as well."""

    def verify(self, observation: SettlementObservation) -> outcomes.SettlementResult:
        return self.observe(observation)


def flow(hook: Hook, jitter_ms: int = 0) -> SettlementFlow:
    """Return a flow around the hook."""
    return SettlementFlow(hook=hook, policy=POLICY, clock=ManualClock(1_750_000_000_000), jitter_ms=lambda: jitter_ms)


def run(answer: object, claim: Claim | None = None) -> steps.Step:
    """Run one attempt whose hook gives this answer."""
    return flow(Hook(lambda: answer)).run(claim or settlement_claim())


def raising(error: Exception) -> Hook:
    """Return a hook that raises."""

    def answer() -> object:
        raise error

    return Hook(answer)


def test_an_accepted_settlement_is_done() -> None:
    """An accepted answer ends the job as settled, and the hook saw the observation of the claim."""
    hook = Hook(lambda: outcomes.Accepted("t-1"))

    step = flow(hook).run(settlement_claim())

    assert step == steps.Done(finished_as=FinishedAs.SETTLED)
    assert [seen.receipt_id for seen in hook.asked] == ["rcpt-1"]


@pytest.mark.parametrize("attempt, delay_ms", [(0, 100), (1, 200)])
def test_a_retryable_answer_within_the_policy_is_retried_on_its_countdown(attempt: int, delay_ms: int) -> None:
    """Attempts below max_retries come again as the next attempt after exactly the policy's backoff."""
    step = run(outcomes.Retryable(RPC), settlement_claim(attempt=attempt))

    assert step == steps.RetryAfter(attempt=attempt + 1, delay_ms=delay_ms, reason=RPC, max_retries=2)


def test_the_last_attempt_ends_as_a_dead_letter() -> None:
    """With max_retries 2 the third attempt is the last, and its record counts three attempts."""
    step = run(outcomes.Retryable(RPC), settlement_claim(attempt=2))

    assert isinstance(step, steps.DeadLettered)
    assert (step.record.receipt_id, step.record.attempts, step.record.reason) == ("rcpt-1", 3, RPC)


def test_jitter_is_added_to_the_backoff() -> None:
    """The policy itself has no jitter; what is drawn is added when the retry is scheduled."""
    step = flow(Hook(lambda: outcomes.Retryable(RPC)), jitter_ms=37).run(settlement_claim())

    assert isinstance(step, steps.RetryAfter)
    assert step.delay_ms == 137


@pytest.mark.parametrize("asked_ms, delay_ms", [(50, 100), (5_000, 5_000), (10**12, 86_400_000)])
def test_retry_after_lengthens_a_backoff_but_never_past_a_day(asked_ms: int, delay_ms: int) -> None:
    """The wait is max(backoff, Retry-After), bounded by the longest backoff a policy may have."""
    step = run(outcomes.Retryable(RPC, retry_after_ms=asked_ms))

    assert isinstance(step, steps.RetryAfter)
    assert step.delay_ms == delay_ms


def test_a_permanent_answer_is_dead_at_the_first_attempt() -> None:
    """A permanent failure spends no retry."""
    reason = SettlementFailureReason.from_detail(SettlementFailureCode.INVALID_INPUT, "no such account")

    step = run(outcomes.Permanent(reason))

    assert isinstance(step, steps.DeadLettered)
    assert (step.record.attempts, step.record.reason) == (1, reason)


def test_a_skip_of_a_positive_amount_breaks_the_contract() -> None:
    """A hook may skip only a zero charge, and an observation's amount is positive: permanent, invalid_observation."""
    step = run(outcomes.Skipped(SettlementSkipReason.DENIED))

    assert isinstance(step, steps.DeadLettered)
    assert step.record.reason.code is SettlementFailureCode.INVALID_OBSERVATION


def test_a_foreign_answer_breaks_the_contract() -> None:
    """A hook that answers something else is a permanent failure, not a crash."""
    step = run("fine, I guess")

    assert isinstance(step, steps.DeadLettered)
    assert step.record.reason.code is SettlementFailureCode.INVALID_OBSERVATION


@pytest.mark.parametrize(
    "error,code,dead",
    [
        (errors.HookInvalidObservationError("x"), SettlementFailureCode.INVALID_OBSERVATION, True),
        (errors.HookTransientError("x"), SettlementFailureCode.BACKEND, False),
        (errors.HookPermanentError("x"), SettlementFailureCode.BACKEND, True),
        (errors.HookPipelineError(SettlementFailureCode.RPC, "x"), SettlementFailureCode.RPC, False),
        (errors.HookPipelineError(SettlementFailureCode.SIGNATURE, "x"), SettlementFailureCode.SIGNATURE, True),
        (ZeroDivisionError("x"), SettlementFailureCode.BACKEND, False),
    ],
)
def test_what_a_hook_raises_is_classified(error: Exception, code: SettlementFailureCode, dead: bool) -> None:
    """Each documented exception ends in its class and code; one nobody classified is retryable, code backend."""
    step = flow(raising(error)).run(settlement_claim())

    reason = step.record.reason if isinstance(step, steps.DeadLettered) else step.reason  # type: ignore[union-attr]  # the two failing steps have one
    assert isinstance(step, steps.DeadLettered) is dead
    assert reason.code is code


def test_an_expired_lease_counts_as_one_failed_attempt_without_asking_the_hook() -> None:
    """The worker of that attempt died: code backend, the next attempt after the backoff, no call of the hook."""
    hook = Hook(outcomes.Accepted)

    step = flow(hook).run(settlement_claim(attempt=1, cause=ClaimCause.LEASE_EXPIRED))

    assert isinstance(step, steps.RetryAfter)
    assert (step.attempt, step.delay_ms, step.reason.code) == (2, 200, SettlementFailureCode.BACKEND)
    assert hook.asked == []


def test_a_job_that_kills_its_worker_every_time_ends_as_a_dead_letter() -> None:
    """The lease of the last attempt expired: dead, instead of looping for ever."""
    step = run(outcomes.Accepted(), settlement_claim(attempt=2, cause=ClaimCause.LEASE_EXPIRED))

    assert isinstance(step, steps.DeadLettered)
    assert (step.record.attempts, step.record.reason.code) == (3, SettlementFailureCode.BACKEND)


def test_a_pending_settlement_waits_in_reconciliation() -> None:
    """A rail's 202 becomes a PendingVerification entry under the receipt's id."""
    step = run(outcomes.Pending("t-9"))

    assert isinstance(step, steps.AwaitReceipt)
    assert step.request.reason is ReconciliationReason.PENDING_VERIFICATION
    assert (step.request.message_id, step.request.partner_id) == ("rcpt-1", "settlement")


def test_an_escalated_settlement_is_verified_if_the_hook_can() -> None:
    """A status check that says accepted ends the job."""
    hook = VerifyingHook(lambda: outcomes.Accepted("t-1"))

    step = flow(hook).run(settlement_claim(cause=ClaimCause.ESCALATED))

    assert step == steps.Done(finished_as=FinishedAs.SETTLED)


def test_an_escalated_settlement_that_is_still_pending_counts_as_one_failed_attempt() -> None:
    """It goes back into the retry envelope, so that a rail that never confirms ends as a dead letter."""
    hook = VerifyingHook(outcomes.Pending)

    step = flow(hook).run(settlement_claim(cause=ClaimCause.ESCALATED))

    assert isinstance(step, steps.RetryAfter)
    assert (step.attempt, step.reason.code) == (1, SettlementFailureCode.BACKEND)


def test_an_escalated_settlement_without_a_status_check_is_sent_again() -> None:
    """A hook that cannot verify is not asked now; the next attempt sends the same receipt id again."""
    hook = Hook(outcomes.Accepted)

    step = flow(hook).run(settlement_claim(cause=ClaimCause.ESCALATED))

    assert isinstance(step, steps.RetryAfter)
    assert hook.asked == []


def test_stored_bytes_that_do_not_decode_are_a_permanent_failure() -> None:
    """A damaged row ends as a dead letter with code invalid_observation; the hook is not asked."""
    step = run(outcomes.Accepted(), settlement_claim(payload=b'{"schema": "other"}'))

    assert isinstance(step, steps.DeadLettered)
    assert step.record.reason.code is SettlementFailureCode.INVALID_OBSERVATION
