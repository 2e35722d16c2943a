"""The story of one delivery attempt, told without Celery and without Redis."""

import dataclasses
from collections.abc import Callable
from datetime import timedelta

import pytest

from reliability import circuit, delivery, errors
from reliability.delivery import (
    AcceptedPendingVerification,
    DeliveryOutcome,
    FailureConfirmed,
    Indeterminate,
    SuccessConfirmed,
)
from reliability.delivery_request import DeliveryRequest
from reliability.failures import SettlementFailureCode, SettlementFailureReason
from reliability.reconciliation import ReconciliationReason
from reliability.retry import RetryPolicy
from storage.gates import GateLimits
from storage.jobs import ClaimCause, FinishedAs
from storage.memory_circuits import InMemoryCircuitStorage
from storage.memory_gates import InMemoryGateStorage
from tasks import steps
from tasks.delivery_flow import DeliveryFlow, PartnerTerms
from tasks.partner_gate import Entered, HeldBack, PartnerGate, PartnerLimits
from tests.support.claims import FIRST_ATTEMPT_AT_MS, delivery_claim
from tests.support.clock import ManualClock

RPC = SettlementFailureReason.from_detail(SettlementFailureCode.RPC, "status 503")
POLICY = RetryPolicy(max_retries=2, initial_backoff_ms=100, backoff_multiplier=2, backoff_cap_ms=1_000)
CIRCUIT = circuit.CircuitPolicy(failure_threshold=2, cool_down_ms=1_000, probe_lease_ms=5_000)


class Hook:
    """Answer what the test says, and count the calls."""

    def __init__(self, answer: Callable[[], object]) -> None:
        self.answer = answer
        self.bodies: list[bytes] = []

    def send(self, request: DeliveryRequest) -> DeliveryOutcome:
        self.bodies.append(request.body)
        return self.answer()  # type: ignore[return-value]  # some tests answer what no hook may


class VerifyingHook(Hook):
    """Answer a status check too, without sending."""

    def verify(self, _request: DeliveryRequest) -> DeliveryOutcome:
        return self.answer()  # type: ignore[return-value]  # as in Hook


class Book:
    """Know one partner, acme."""

    def __init__(self, terms: PartnerTerms) -> None:
        self.terms = terms

    def terms_of(self, partner_id: str) -> PartnerTerms | None:
        return self.terms if partner_id == "acme" else None


class Scene:
    """Hold a flow around one hook, with the shared state and the clock a test may turn."""

    def __init__(
        self, hook: Hook, *, max_elapsed: timedelta | None = None, gate: GateLimits | None = None, jitter_ms: int = 0
    ) -> None:
        self.clock = ManualClock(FIRST_ATTEMPT_AT_MS)
        self.hook = hook
        terms = PartnerTerms(
            policy=POLICY,
            budget=delivery.RetryBudget(max_elapsed=max_elapsed),
            limits=PartnerLimits(circuit=CIRCUIT, gate=gate or GateLimits()),
            jitter_ms=jitter_ms,
        )
        self.circuits = InMemoryCircuitStorage()
        tokens = iter(range(1_000))
        self.flow = DeliveryFlow(
            hook=hook,
            partners=Book(terms),
            gate=PartnerGate(
                circuits=self.circuits,
                gates=InMemoryGateStorage(self.clock),
                clock=self.clock,
                new_token=lambda: f"token-{next(tokens)}",
            ),
            clock=self.clock,
            jitter=lambda max_jitter_ms: max_jitter_ms,
        )

    def run(self, attempt: int = 0, cause: ClaimCause = ClaimCause.DUE) -> steps.Step:
        """Run one attempt of the same delivery."""
        return self.flow.run(delivery_claim(attempt, cause))


def answering(outcome: object) -> Scene:
    """Return a scene whose hook always gives this answer."""
    return Scene(Hook(lambda: outcome))


def test_a_confirmed_delivery_is_done_with_the_stored_bytes() -> None:
    """SuccessConfirmed ends the job; the hook got the body that was admitted."""
    scene = answering(SuccessConfirmed())

    step = scene.run()

    assert step == steps.Done(finished_as=FinishedAs.CONFIRMED)
    assert scene.hook.bodies == [b'{"order": 7}']


def test_a_confirmed_failure_is_a_dead_letter_now() -> None:
    """FailureConfirmed is never tried again; its record carries the delivery's id and creation time."""
    step = answering(FailureConfirmed(reason=RPC)).run()

    assert isinstance(step, steps.DeadLettered)
    assert (step.record.receipt_id, step.record.finalized_at) == ("delivery:acme:msg-1", 1_750_000_000)
    assert (step.record.attempts, step.record.reason) == (1, RPC)


def test_an_indeterminate_delivery_is_retried_and_reconciled() -> None:
    """Indeterminate comes again on the policy's countdown and leaves an Indeterminate entry."""
    step = answering(Indeterminate(reason=RPC)).run()

    assert isinstance(step, steps.RetryAfter)
    assert (step.attempt, step.delay_ms, step.reason) == (1, 100, RPC)
    assert step.pending is not None
    assert step.pending.reason is ReconciliationReason.INDETERMINATE


def test_a_delivery_that_was_not_sent_leaves_nothing_to_reconcile() -> None:
    """A refused connection is retried freely, without an entry."""
    step = answering(Indeterminate(reason=RPC, not_sent=True)).run()

    assert isinstance(step, steps.RetryAfter)
    assert step.pending is None


def test_an_exhausted_indeterminate_delivery_is_a_dead_letter() -> None:
    """With max_retries 2 the third indeterminate attempt is dead, with three attempts counted."""
    step = answering(Indeterminate(reason=RPC)).run(attempt=2)

    assert isinstance(step, steps.DeadLettered)
    assert step.record.attempts == 3


def test_an_accepted_delivery_waits_for_its_receipt() -> None:
    """AcceptedPendingVerification becomes a PendingVerification entry and no retry."""
    step = answering(AcceptedPendingVerification()).run()

    assert isinstance(step, steps.AwaitReceipt)
    assert step.request.reason is ReconciliationReason.PENDING_VERIFICATION
    assert (step.request.partner_id, step.request.message_id) == ("acme", "msg-1")


def test_retry_after_and_jitter_lengthen_the_wait() -> None:
    """The delay is max(backoff, Retry-After) plus the partner's jitter."""
    scene = Scene(Hook(lambda: Indeterminate(reason=RPC, retry_after_ms=700)), jitter_ms=9)

    step = scene.run()

    assert isinstance(step, steps.RetryAfter)
    assert step.delay_ms == 709


def test_a_retry_past_the_elapsed_budget_is_a_dead_letter_now() -> None:
    """A backoff of 100 ms does not fit into a budget of 50 ms."""
    scene = Scene(Hook(lambda: Indeterminate(reason=RPC)), max_elapsed=timedelta(milliseconds=50))

    step = scene.run()

    assert isinstance(step, steps.DeadLettered)


def test_an_open_circuit_holds_the_delivery_back_without_spending_an_attempt() -> None:
    """After two indeterminate outcomes the third delivery is not sent and keeps its attempt number."""
    scene = answering(Indeterminate(reason=RPC))
    scene.run()
    scene.run(attempt=1)

    step = scene.run(attempt=1)

    assert step == steps.Defer(attempt=1, delay_ms=1_000, why="circuit open")
    assert len(scene.hook.bodies) == 2


def test_deliveries_held_back_come_one_after_the_other() -> None:
    """Each delivery that waits for one partner gets its own turn, 20 ms apart."""
    scene = answering(Indeterminate(reason=RPC))
    scene.run()
    scene.run(attempt=1)

    delays = [step.delay_ms for step in (scene.run(), scene.run(), scene.run()) if isinstance(step, steps.Defer)]

    assert delays == [1_000, 1_020, 1_040]


def test_after_the_cool_down_one_probe_goes_out_and_its_success_closes_the_circuit() -> None:
    """While the probe is out the others wait; a confirmed probe lets everything through again."""
    answers: list[DeliveryOutcome] = [Indeterminate(reason=RPC), Indeterminate(reason=RPC)]
    scene = Scene(Hook(lambda: answers.pop(0) if answers else SuccessConfirmed()))
    scene.run()
    scene.run(attempt=1)
    scene.clock.advance(1_000)

    probe = scene.run(attempt=1)

    assert probe == steps.Done(finished_as=FinishedAs.CONFIRMED)
    assert scene.circuits.load("acme") == circuit.Closed()


def test_while_a_probe_is_out_the_others_ask_again_soon() -> None:
    """They do not wait for the whole lease of the probe, which ends much earlier unless its worker died."""
    scene = answering(Indeterminate(reason=RPC))
    out = circuit.HalfOpen(opened_at_ms=0, probe_token="another", probe_deadline_at_ms=FIRST_ATTEMPT_AT_MS + 60_000)
    scene.circuits.compare_and_set("acme", circuit.Closed(), out)

    step = scene.run()

    assert step == steps.Defer(attempt=0, delay_ms=1_000, why="circuit open")


def test_a_probe_is_given_up_no_sooner_than_its_hook_may_run() -> None:
    """The worker's own time limit counts where it is longer than the partner's lease, for the gate's places too."""
    scene = answering(SuccessConfirmed())
    gate = dataclasses.replace(scene.flow.gate, min_lease_ms=20_000)
    opened = circuit.Open(opened_at_ms=0, probe_at_ms=0)
    scene.circuits.compare_and_set("acme", circuit.Closed(), opened)
    limits = PartnerLimits(circuit=CIRCUIT, gate=GateLimits(max_concurrent=1, entry_lease_ms=1_000))

    entered = gate.enter("acme", limits)
    scene.clock.advance(19_000)

    state = scene.circuits.load("acme")
    assert isinstance(entered, Entered)
    assert isinstance(state, circuit.HalfOpen)
    assert state.probe_deadline_at_ms == FIRST_ATTEMPT_AT_MS + 20_000
    assert gate.enter("acme", limits) == HeldBack(delay_ms=250, why="too many at once")


def test_a_failed_probe_opens_the_circuit_again() -> None:
    """A probe that ends indeterminate starts a new cool-down."""
    scene = answering(Indeterminate(reason=RPC))
    scene.run()
    scene.run(attempt=1)
    scene.clock.advance(1_000)
    scene.run(attempt=0)

    step = scene.run(attempt=0)

    assert isinstance(step, steps.Defer)
    assert len(scene.hook.bodies) == 3


def test_429_does_not_open_the_circuit() -> None:
    """An answer that asks for patience never counts against the partner."""
    scene = answering(Indeterminate(reason=RPC, counts_for_breaker=False))

    for _ in range(5):
        scene.run()

    assert len(scene.hook.bodies) == 5


def test_the_elapsed_budget_runs_on_while_the_circuit_is_open() -> None:
    """A delivery that could only go out after its budget is dead now, not after the wait."""
    scene = Scene(Hook(lambda: Indeterminate(reason=RPC)), max_elapsed=timedelta(milliseconds=500))
    scene.run()
    scene.run(attempt=1)

    step = scene.run(attempt=1)

    assert isinstance(step, steps.DeadLettered)


def test_a_partner_at_its_rate_holds_deliveries_back() -> None:
    """At one delivery a second the second one waits for the next second and keeps its attempt."""
    scene = Scene(Hook(SuccessConfirmed), gate=GateLimits(max_per_second=1))
    scene.run()

    step = scene.run()

    assert step == steps.Defer(attempt=0, delay_ms=1_000, why="rate limit")


def test_an_expired_lease_counts_as_an_unknown_outcome_without_sending() -> None:
    """The worker died inside the hook: the same bytes go out as the next attempt, after the backoff."""
    scene = answering(SuccessConfirmed())

    step = scene.run(cause=ClaimCause.LEASE_EXPIRED)

    assert isinstance(step, steps.RetryAfter)
    assert (step.attempt, step.reason.code) == (1, SettlementFailureCode.BACKEND)
    assert scene.hook.bodies == []


def test_an_escalated_delivery_is_verified_if_the_hook_can() -> None:
    """A status check that confirms ends the job without sending again."""
    scene = Scene(VerifyingHook(SuccessConfirmed))

    step = scene.run(cause=ClaimCause.ESCALATED)

    assert step == steps.Done(finished_as=FinishedAs.CONFIRMED)
    assert scene.hook.bodies == []


def test_an_escalated_delivery_is_sent_again_if_the_hook_cannot_verify() -> None:
    """It goes back into the retry envelope as the next attempt."""
    step = answering(SuccessConfirmed()).run(cause=ClaimCause.ESCALATED)

    assert isinstance(step, steps.RetryAfter)
    assert step.attempt == 1


@pytest.mark.parametrize(
    "error,dead",
    [(ZeroDivisionError("x"), False), (errors.HookTransientError("x"), False), (errors.HookPermanentError("x"), True)],
)
def test_what_a_hook_raises_leaves_the_outcome_unknown_unless_it_says_permanent(error: Exception, dead: bool) -> None:
    """Only an exception that calls itself permanent is certain."""

    def answer() -> object:
        raise error

    step = Scene(Hook(answer)).run()

    assert isinstance(step, steps.DeadLettered) is dead


def test_a_foreign_answer_leaves_the_outcome_unknown() -> None:
    """A hook that answers nothing known may have sent: the same bytes go out again."""
    step = answering(None).run()

    assert isinstance(step, steps.RetryAfter)


def test_a_delivery_to_a_partner_that_was_removed_is_a_dead_letter() -> None:
    """Nobody can send it; an operator replays it once the partner is back."""
    scene = answering(SuccessConfirmed())
    request = DeliveryRequest.from_json(delivery_claim().payload).model_copy(update={"partner_id": "gone"})

    step = scene.flow.run(delivery_claim(payload=request.canonical_json()))

    assert isinstance(step, steps.DeadLettered)
    assert step.record.reason.code is SettlementFailureCode.UNSUPPORTED
