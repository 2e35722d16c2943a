"""
One settlement attempt, from claim to step. Knows no Celery and no Redis; `tasks.base` carries out what it returns.

The retry is decided in `reliability.retry.classify_attempt`; this file asks the hook, hands the answer over and turns
the decision into a step.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import assert_never

from reliability import clock, outcomes, retry, settlement
from reliability.dead_letter import DeadLetterRecord
from reliability.delivery import AcceptedPendingVerification
from reliability.errors import InvalidInputError
from reliability.failures import SettlementFailureCode, SettlementFailureReason
from reliability.reconciliation import ReconciliationRequest
from reliability.settlement import SettlementObservation
from storage import job_ids
from storage.jobs import Claim, ClaimCause, FinishedAs
from tasks import attempt_flow, hooks, steps


@dataclass(frozen=True, slots=True, kw_only=True)
class SettlementQuestion:
    """Hold a claim whose hook is to be asked about this observation."""

    claim: Claim
    subject: SettlementObservation


@dataclass(frozen=True, slots=True, kw_only=True)
class SettlementFlow:
    """Hold what one attempt needs: the hook, the policy, a clock and the jitter added to each backoff in ms."""

    hook: hooks.SettlementHook
    policy: retry.RetryPolicy
    clock: clock.Clock
    jitter_ms: Callable[[], int]

    @property
    def asks_many(self) -> Callable[[Sequence[SettlementQuestion]], Sequence[object]] | None:
        """Return what asks the hook about many observations with one call; None where it offers none."""
        hook = self.hook
        if not isinstance(hook, hooks.BatchSettlementHook):
            return None
        return lambda questions: hook.observe_many([question.subject for question in questions])

    @property
    def asks_async(self) -> Callable[[SettlementQuestion], Awaitable[object]] | None:
        """Return what asks the hook on its loop; None where it offers none."""
        hook = self.hook
        if not isinstance(hook, hooks.AsyncSettlementHook):
            return None
        return lambda question: hook.observe_async(question.subject)

    def run(self, claim: Claim) -> steps.Step:
        """Run the claimed attempt and say what follows. Never raises for anything a hook does."""
        begun = self.begin(claim)
        if not isinstance(begun, SettlementQuestion):
            return begun
        return self.conclude(begun, _answer(self.hook.observe, begun.subject))

    def begin(self, claim: Claim) -> steps.Step | SettlementQuestion:
        """Read the observation and return the question to the hook; a step where the hook is not asked to settle."""
        if claim.cause is ClaimCause.LEASE_EXPIRED:
            return self._follow(claim, outcomes.Retryable(attempt_flow.LEASE_EXPIRED))
        try:
            observation = SettlementObservation.from_json(claim.payload)
        except InvalidInputError as error:
            return self._follow(claim, _broken_contract(str(error)))
        if claim.cause is ClaimCause.ESCALATED:
            return self._follow(claim, self._verify(observation))
        return SettlementQuestion(claim=claim, subject=observation)

    def begin_many(self, claims: Sequence[Claim]) -> list[steps.Step | SettlementQuestion]:
        """Begin each claim, in order."""
        return [self.begin(claim) for claim in claims]

    def conclude_many(self, answered: Sequence[tuple[SettlementQuestion, object]]) -> list[steps.Step]:
        """Conclude each answer, in order."""
        return [self.conclude(question, answer) for question, answer in answered]

    def conclude(self, question: SettlementQuestion, answer: object) -> steps.Step:
        """Say what follows the hook's answer, which may be the exception it raised."""
        return self._follow(question.claim, checked_answer(question.subject, answer))

    def _verify(self, observation: SettlementObservation) -> outcomes.SettlementResult:
        """Ask a hook that can verify; a settlement that is pending still counts as one failed attempt."""
        if not isinstance(self.hook, hooks.VerifyingSettlementHook):
            return outcomes.Retryable(attempt_flow.NO_RECEIPT)
        answer = checked_answer(observation, _answer(self.hook.verify, observation))
        return outcomes.Retryable(attempt_flow.NO_RECEIPT) if isinstance(answer, outcomes.Pending) else answer

    def _follow(self, claim: Claim, result: outcomes.SettlementResult) -> steps.Step:
        if isinstance(result, outcomes.Pending):
            return self._await_receipt(claim)
        asked_ms = (result.retry_after_ms or 0) if isinstance(result, outcomes.Retryable) else 0
        return self._step(
            claim, retry.classify_attempt(self.policy, claim.attempt, result), min(asked_ms, retry.BACKOFF_CAP_LIMIT_MS)
        )

    def _step(self, claim: Claim, decision: retry.AttemptDecision, retry_after_ms: int) -> steps.Step:
        match decision:
            case retry.Accepted():
                return steps.Done(finished_as=FinishedAs.SETTLED)
            case retry.Skip():
                return steps.Done(finished_as=FinishedAs.SKIPPED)
            case retry.Retry(attempt=attempt, reason=reason):
                backoff_ms = self.policy.backoff_ms_for(claim.attempt) + self.jitter_ms()
                return steps.RetryAfter(
                    attempt=attempt,
                    delay_ms=max(backoff_ms, retry_after_ms),
                    reason=reason,
                    max_retries=self.policy.max_retries,
                )
            case retry.DeadLetter(reason=reason):
                return steps.DeadLettered(record=dead_letter_of(claim, reason))
            case _:
                assert_never(decision)

    def _await_receipt(self, claim: Claim) -> steps.Step:
        now = datetime.fromtimestamp(self.clock.now_ms() / 1000, UTC)
        request = ReconciliationRequest.for_outcome(
            AcceptedPendingVerification(), claim.job_id, job_ids.SETTLEMENT_PARTNER_ID, now
        )
        if request is None:  # pragma: no cover - the documented table gives a request for a pending outcome
            raise AssertionError(claim.job_id)
        return steps.AwaitReceipt(request=request)


def dead_letter_of(claim: Claim, reason: SettlementFailureReason) -> DeadLetterRecord:
    """Return the dead letter of a job whose attempt `claim.attempt` (zero-based) was its last."""
    return DeadLetterRecord.new(claim.job_id, claim.finalized_at, claim.attempt + 1, reason)


def checked_answer(observation: SettlementObservation, answer: object) -> outcomes.SettlementResult:
    """
    Hold a hook to its contract: a foreign answer, or a skip of a positive amount, is a permanent failure.

    An exception is the answer it stands for.
    """
    if isinstance(answer, Exception):
        return outcomes.classify_exception(answer)
    if isinstance(answer, outcomes.Pending):
        return answer
    if not isinstance(answer, outcomes.ClassifiedResult):
        return _broken_contract(f"the hook answered a {type(answer).__name__}")
    return settlement.hold_to_contract(observation, answer)


def _answer(ask: Callable[[SettlementObservation], object], observation: SettlementObservation) -> object:
    try:
        return ask(observation)
    except Exception as error:  # noqa: BLE001 - a hook is user code: whatever it raises is an answer to classify
        return error


def _broken_contract(detail: str) -> outcomes.Permanent:
    return outcomes.Permanent(SettlementFailureReason.from_detail(SettlementFailureCode.INVALID_OBSERVATION, detail))
