"""
One delivery attempt, from claim to step. Knows no Celery and no Redis; `tasks.base` carries out what it returns.

It takes the road of a settlement with two additions: the partner's circuit is asked before the hook runs, and an
accepted delivery waits for its receipt. The retry is decided in `reliability.delivery`.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol, assert_never

from reliability import delivery, outcomes
from reliability.clock import Clock
from reliability.delivery import (
    AcceptedPendingVerification,
    DeliveryOutcome,
    FailureConfirmed,
    Indeterminate,
    SuccessConfirmed,
)
from reliability.delivery_request import DeliveryRequest
from reliability.errors import InvalidInputError
from reliability.failures import SettlementFailureCode, SettlementFailureReason
from reliability.reconciliation import ReconciliationRequest
from reliability.retry import RetryPolicy
from storage.jobs import Claim, ClaimCause, FinishedAs
from tasks import attempt_flow, hooks, steps
from tasks.partner_gate import Ended, Entered, HeldBack, PartnerGate, PartnerLimits
from tasks.settlement_flow import dead_letter_of

_BUDGET_SPENT = SettlementFailureReason.from_detail(SettlementFailureCode.BACKEND, "elapsed budget spent while waiting")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartnerTerms:
    """Hold what the flow needs to know of one partner."""

    policy: RetryPolicy
    budget: delivery.RetryBudget
    limits: PartnerLimits
    jitter_ms: int = 0


class PartnerBook(Protocol):
    """Tell the terms of each partner."""

    def terms_of(self, partner_id: str) -> PartnerTerms | None:
        """Return the terms in force now, or None for a partner nobody configured."""
        ...


class Jitter(Protocol):
    """Choose the milliseconds added to a backoff."""

    def __call__(self, max_jitter_ms: int) -> int:
        """Return a number from 0 to `max_jitter_ms`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryQuestion:
    """Hold a claim whose hook is to be asked: the partner's gate has let its request in."""

    claim: Claim
    subject: DeliveryRequest
    terms: PartnerTerms
    entered: Entered

    def ended(self, outcome: DeliveryOutcome) -> Ended:
        """Return what the gate is told when the hook has answered."""
        return Ended(self.subject.partner_id, self.terms.limits, self.entered, outcome)


@dataclass(frozen=True, slots=True)
class _Sendable:
    """Hold a claim whose request may be sent if the gate lets it in."""

    claim: Claim
    request: DeliveryRequest
    terms: PartnerTerms


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryFlow:
    """Hold what one attempt needs."""

    hook: hooks.DeliveryHook
    partners: PartnerBook
    gate: PartnerGate
    clock: Clock
    jitter: Jitter

    @property
    def asks_many(self) -> Callable[[Sequence[DeliveryQuestion]], Sequence[object]] | None:
        """Return what asks the hook to send many with one call; None where it offers none."""
        hook = self.hook
        if not isinstance(hook, hooks.BatchDeliveryHook):
            return None
        return lambda questions: hook.send_many([question.subject for question in questions])

    @property
    def asks_async(self) -> Callable[[DeliveryQuestion], Awaitable[object]] | None:
        """Return what asks the hook on its loop; None where it offers none."""
        hook = self.hook
        if not isinstance(hook, hooks.AsyncDeliveryHook):
            return None
        return lambda question: hook.send_async(question.subject)

    def run(self, claim: Claim) -> steps.Step:
        """
        Run the claimed attempt and say what follows. Never raises for anything a hook does.

        Raises:
            StorageUnavailableError: if the circuit cannot be asked; nothing was sent and the lease runs out.

        """
        begun = self.begin(claim)
        if not isinstance(begun, DeliveryQuestion):
            return begun
        try:
            answer = _answer(self.hook.send, begun.subject)
        except BaseException:
            # The process is told to end: give the partner's place back.
            self.gate.leave_many([begun.ended(Indeterminate())])
            raise
        return self.conclude(begun, answer)

    def begin(self, claim: Claim) -> steps.Step | DeliveryQuestion:
        """
        Read the request and ask the partner's gate; a step where nothing is to be sent now.

        Raises:
            StorageUnavailableError: as `run`.

        """
        return self.begin_many([claim])[0]

    def begin_many(self, claims: Sequence[Claim]) -> list[steps.Step | DeliveryQuestion]:
        """
        Begin each claim, in order; all partners' gates are asked together.

        Raises:
            StorageUnavailableError: as `run`; none of them was begun.

        """
        read = [self._read(claim) for claim in claims]
        sendable = [found for found in read if isinstance(found, _Sendable)]
        passes = self.gate.enter_many([(found.request.partner_id, found.terms.limits) for found in sendable])
        answers = iter([self._question(*pair) for pair in zip(sendable, passes, strict=True)])
        return [next(answers) if isinstance(found, _Sendable) else found for found in read]

    def conclude(self, question: DeliveryQuestion, answer: object) -> steps.Step:
        """Leave the gate and say what follows the hook's answer, which may be the exception it raised."""
        return self.conclude_many([(question, answer)])[0]

    def conclude_many(self, answered: Sequence[tuple[DeliveryQuestion, object]]) -> list[steps.Step]:
        """Conclude each answer, in order; all gates are left together."""
        outcomes_of = [(question, checked(answer)) for question, answer in answered]
        self.gate.leave_many([question.ended(outcome) for question, outcome in outcomes_of])
        return [
            self._step(question.claim, question.subject, question.terms, outcome) for question, outcome in outcomes_of
        ]

    def _read(self, claim: Claim) -> "steps.Step | _Sendable":
        try:
            request = DeliveryRequest.from_json(claim.payload)
        except InvalidInputError as error:
            return _dead(claim, SettlementFailureReason.from_detail(SettlementFailureCode.INVALID_INPUT, str(error)))
        terms = self.partners.terms_of(request.partner_id)
        if terms is None:
            # Admission refuses unknown partners, so this one was removed since: an operator replays when it is back.
            return _dead(claim, SettlementFailureReason.from_detail(SettlementFailureCode.UNSUPPORTED, "partner gone"))
        match claim.cause:
            case ClaimCause.LEASE_EXPIRED:
                return self._step(
                    claim, request, terms, Indeterminate(reason=attempt_flow.LEASE_EXPIRED, rule="lease.expired")
                )
            case ClaimCause.ESCALATED:
                return self._step(claim, request, terms, self._verify(request))
            case ClaimCause.DUE:
                return _Sendable(claim, request, terms)
            case _:
                assert_never(claim.cause)

    def _question(self, found: "_Sendable", entered: Entered | HeldBack) -> steps.Step | DeliveryQuestion:
        if isinstance(entered, HeldBack):
            return self._hold_back(found.claim, found.terms, entered)
        return DeliveryQuestion(claim=found.claim, subject=found.request, terms=found.terms, entered=entered)

    def _verify(self, request: DeliveryRequest) -> DeliveryOutcome:
        """Ask a hook that can verify; a delivery still without a receipt counts as one failed attempt."""
        unconfirmed = Indeterminate(reason=attempt_flow.NO_RECEIPT, rule="receipt.late")
        if not isinstance(self.hook, hooks.VerifyingDeliveryHook):
            return unconfirmed
        outcome = checked(_answer(self.hook.verify, request))
        return unconfirmed if isinstance(outcome, AcceptedPendingVerification) else outcome

    def _hold_back(self, claim: Claim, terms: PartnerTerms, held: HeldBack) -> steps.Step:
        """Spend no attempt; the elapsed budget runs on all the same."""
        if terms.budget.max_elapsed is not None:
            elapsed_ms = self.clock.now_ms() + held.delay_ms - claim.first_attempt_at_ms
            if timedelta(milliseconds=elapsed_ms) > terms.budget.max_elapsed:
                return _dead(claim, _BUDGET_SPENT)
        return steps.Defer(attempt=claim.attempt, delay_ms=held.delay_ms, why=held.why)

    def _step(
        self, claim: Claim, request: DeliveryRequest, terms: PartnerTerms, outcome: DeliveryOutcome
    ) -> steps.Step:
        match outcome:
            case SuccessConfirmed():
                return steps.Done(finished_as=FinishedAs.CONFIRMED)
            case FailureConfirmed(reason=reason):
                return _dead(claim, reason)
            case Indeterminate():
                return self._again(claim, request, terms, outcome)
            case AcceptedPendingVerification():
                entry = self._entry(request, outcome)
                return steps.AwaitReceipt(request=entry) if entry else steps.Done(finished_as=FinishedAs.CONFIRMED)
            case _:
                assert_never(outcome)

    def _again(self, claim: Claim, request: DeliveryRequest, terms: PartnerTerms, outcome: Indeterminate) -> steps.Step:
        failed = delivery.FailedAttempt(
            attempt=claim.attempt,
            first_attempt_at_ms=claim.first_attempt_at_ms,
            retry_after_ms=outcome.retry_after_ms,
        )
        plan = delivery.plan_retry(terms.policy, terms.budget, failed, self.clock.now_ms())
        if isinstance(plan, delivery.Exhausted):
            return _dead(claim, outcome.reason)
        delay_ms = plan.delay // timedelta(milliseconds=1) + self.jitter(terms.jitter_ms)
        entry = self._entry(request, outcome)
        return steps.RetryAfter(
            attempt=plan.attempt,
            delay_ms=delay_ms,
            reason=outcome.reason,
            max_retries=terms.policy.max_retries,
            pending=entry,
        )

    def _entry(self, request: DeliveryRequest, outcome: DeliveryOutcome) -> ReconciliationRequest | None:
        now = datetime.fromtimestamp(self.clock.now_ms() / 1000, UTC)
        return ReconciliationRequest.for_outcome(outcome, request.message_id, request.partner_id, now)


def checked(answer: object) -> DeliveryOutcome:
    """
    Hold a hook to its contract: an answer that is no outcome says nothing about what the partner has.

    An exception is the outcome it stands for.
    """
    if isinstance(answer, Exception):
        return raised(answer)
    if isinstance(answer, DeliveryOutcome):
        return answer
    detail = f"the hook answered a {type(answer).__name__}"
    return Indeterminate(reason=SettlementFailureReason.from_detail(SettlementFailureCode.BACKEND, detail))


def raised(error: Exception) -> DeliveryOutcome:
    """Read what a hook's exception says: only one that calls itself permanent is certain."""
    result = outcomes.classify_exception(error)
    if isinstance(result, outcomes.Permanent):
        return FailureConfirmed(reason=result.reason, rule="hook.raised")
    return Indeterminate(reason=result.reason, rule="hook.raised")


def _answer(ask: Callable[[DeliveryRequest], object], request: DeliveryRequest) -> object:
    try:
        return ask(request)
    except Exception as error:  # noqa: BLE001 - a hook is user code: whatever it raises leaves the outcome unknown
        return error


def _dead(claim: Claim, reason: SettlementFailureReason) -> steps.Step:
    return steps.DeadLettered(record=dead_letter_of(claim, reason))
