"""
One decision of the partner rules, explained: the rule behind it and the attempts that would follow.

The work of `chio-worker partners explain`; it decides nothing itself and asks `partner_rules` and `plan_retry`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import assert_never

from reliability import clock, delivery, partner_rules
from reliability.delivery import (
    AcceptedPendingVerification,
    DeliveryOutcome,
    Exhausted,
    FailedAttempt,
    FailureConfirmed,
    Indeterminate,
    NextAttempt,
    RetryPlan,
    SuccessConfirmed,
)
from reliability.errors import InvalidInputError
from reliability.exchange import ANSWERED, Exchange, Phase
from reliability.partner_rules import Decision
from reliability.status_rules import HIGHEST_STATUS, LOWEST_STATUS, Verdict
from tasks.partners import Partner, PartnerDirectory
from worker.cli import output, partner_listing

_MILLISECOND = timedelta(milliseconds=1)
_PHASES = [phase for phase in Phase if phase not in ANSWERED]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Hold what the operator asks about: a status or a phase, headers, a body."""

    text: str
    headers: Sequence[str] = ()
    body: str = ""

    def exchange(self, ended_at: datetime) -> Exchange:
        """
        Return the exchange that ends so.

        Raises:
            InvalidInputError: The text is no status and no phase, or a header is none.

        """
        phase, status = _phase_and_status(self.text)
        headers = dict(_header(text) for text in self.headers)
        return Exchange(phase=phase, status=status, headers=headers, body=self.body.encode(), ended_at=ended_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Upcoming:
    """Hold one attempt that would follow."""

    attempt: int
    delay_ms: int
    #: Since the attempt that was asked about ended.
    after_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Hold a decision and what would follow it."""

    decision: Decision
    verdict: Verdict
    upcoming: Sequence[Upcoming]
    #: What ends the delivery if nothing else does; None where it is not sent again.
    ends_by: Exhausted | None
    jitter_ms: int

    @property
    def should_retry(self) -> bool:
        """Tell whether another attempt follows."""
        return bool(self.upcoming)

    @property
    def delay_ms(self) -> int | None:
        """Return the wait before the next attempt; None where there is none."""
        return self.upcoming[0].delay_ms if self.upcoming else None

    def to_json(self) -> dict[str, object]:
        """Return the document of `--json`."""
        reason = getattr(self.decision.outcome, "reason", None)
        return {
            "outcome": self.verdict.value,
            "should_retry": self.should_retry,
            "delay_ms": self.delay_ms,
            "rule": self.decision.rule,
            "row": self.decision.row,
            "code": None if reason is None else reason.code.value,
            "disables_endpoint": self.decision.disables_endpoint,
            "jitter_ms": self.jitter_ms,
            "next_attempts": [
                {"attempt": each.attempt, "delay_ms": each.delay_ms, "after_ms": each.after_ms}
                for each in self.upcoming
            ],
            "ends_by": None if self.ends_by is None else self.ends_by.value,
        }

    def show(self) -> None:
        """Print the decision, then the attempts as a table."""
        backed = f"row {self.decision.row} of docs/partners.md" if self.decision.row else "the partner file"
        output.line(f"{self.verdict.value}, by rule {self.decision.rule} ({backed})")
        output.line(self._consequence())
        if self.upcoming:
            shown = partner_listing.duration
            rows = [[each.attempt, shown(each.delay_ms), shown(each.after_ms)] for each in self.upcoming]
            output.show(output.table("Next attempts", ["attempt", "waits", "runs after"], rows))

    def _consequence(self) -> str:
        match self.verdict:
            case Verdict.SUCCESS_CONFIRMED:
                return "the delivery is done"
            case Verdict.FAILURE_CONFIRMED:
                also = ", and nothing more is sent to this partner" if self.decision.disables_endpoint else ""
                return f"the delivery is a dead letter now{also}"
            case Verdict.ACCEPTED_PENDING_VERIFICATION:
                return "the delivery waits for its receipt"
            case Verdict.INDETERMINATE:
                return self._repeat()
            case _:
                assert_never(self.verdict)

    def _repeat(self) -> str:
        bound = "the elapsed budget is spent" if self.ends_by is Exhausted.ELAPSED else "the attempts are used up"
        if not self.upcoming:
            return f"the delivery is a dead letter now: {bound}"
        jitter = f", each wait up to {self.jitter_ms} ms longer by jitter" if self.jitter_ms else ""
        return f"the same bytes are sent again{jitter}; a dead letter once {bound}"


def explained(directory: PartnerDirectory, partner_id: str, answer: Answer, attempt: int) -> Explanation:
    """
    Explain what the answer means for this partner when attempt number `attempt` meets it.

    Raises:
        InvalidInputError: No partner has this id, or the answer is none.

    """
    partner = directory.get(partner_id)
    if partner is None:
        raise InvalidInputError("partner", f"expected one of {', '.join(sorted(directory.partners))}")
    decision = partner_rules.explain(partner.rules, answer.exchange(clock.utc_now()))
    plans = list(_plans(partner, decision.outcome)) if isinstance(decision.outcome, Indeterminate) else []
    repeats = [plan for plan in plans if isinstance(plan, NextAttempt)]
    return Explanation(
        decision=decision,
        verdict=_verdict(decision.outcome),
        upcoming=_upcoming(repeats[attempt:]),
        ends_by=next((plan for plan in plans if isinstance(plan, Exhausted)), None),
        jitter_ms=partner.jitter_ms,
    )


def _plans(partner: Partner, outcome: Indeterminate) -> Iterator[RetryPlan]:
    """Plan every attempt from the first, as if each met this outcome at once; what ends the delivery comes last."""
    elapsed_ms = 0
    for attempt in range(partner.retry.max_retries + 1):
        failed = FailedAttempt(attempt=attempt, first_attempt_at_ms=0, retry_after_ms=outcome.retry_after_ms)
        plan = delivery.plan_retry(partner.retry, partner.budget, failed, elapsed_ms)
        yield plan
        if isinstance(plan, Exhausted):
            return
        elapsed_ms += plan.delay // _MILLISECOND


def _upcoming(repeats: Sequence[NextAttempt]) -> list[Upcoming]:
    found: list[Upcoming] = []
    after_ms = 0
    for plan in repeats:
        delay_ms = plan.delay // _MILLISECOND
        after_ms += delay_ms
        found.append(Upcoming(attempt=plan.attempt, delay_ms=delay_ms, after_ms=after_ms))
    return found


def _verdict(outcome: DeliveryOutcome) -> Verdict:
    match outcome:
        case SuccessConfirmed():
            return Verdict.SUCCESS_CONFIRMED
        case FailureConfirmed():
            return Verdict.FAILURE_CONFIRMED
        case Indeterminate():
            return Verdict.INDETERMINATE
        case AcceptedPendingVerification():
            return Verdict.ACCEPTED_PENDING_VERIFICATION
        case _:
            assert_never(outcome)


def _phase_and_status(text: str) -> tuple[Phase, int | None]:
    if text.isascii() and text.isdigit() and LOWEST_STATUS <= int(text) <= HIGHEST_STATUS:
        return Phase.BODY, int(text)
    if text in _PHASES:
        return Phase(text), None
    raise InvalidInputError("answer", f"expected a status such as 503, or one of {', '.join(_PHASES)}")


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise InvalidInputError("header", 'expected a header such as "Retry-After: 120"')
    return name.strip().lower(), value.strip()
