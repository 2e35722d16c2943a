"""
Decide what an exchange with a partner means: the partner's own rules first, then the defaults of `webhook_rules`.

Pure. The webhook hook calls `decide` once an exchange ended; `chio-worker partners explain` shows what `explain`
returns. What is retried and when is decided later, in `reliability.delivery`.
"""

import functools
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, assert_never

from reliability import failures, retry_after, status_rules, webhook_rules
from reliability.body_rules import BodyFinding, BodyRule
from reliability.delivery import (
    AcceptedPendingVerification,
    DeliveryOutcome,
    FailureConfirmed,
    Indeterminate,
    SuccessConfirmed,
)
from reliability.exchange import ANSWERED, Exchange, Phase
from reliability.failures import SettlementFailureCode, SettlementFailureReason
from reliability.status_rules import StatusRule, Verdict

#: The header by which a partner ends a message or its own subscription; honoured only where its rules say so.
DELIVERY_HEADER: Final = "webhook-delivery"
_ABORT: Final = "abort-message"
_DISABLE: Final = "disable"
_HEADER_ROW: Final = 31
_BODY_ROW: Final = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class PartnerRules:
    """Hold what one partner's file says beside the defaults."""

    status_rules: tuple[StatusRule, ...] = ()
    body_rule: BodyRule | None = None
    #: A 2xx means taken, not done: the receipt comes later.
    accepts_pending: bool = False
    #: `webhook-delivery: abort-message` and `disable` are honoured.
    honour_delivery_headers: bool = False
    #: The partner drops a repeat of a message id. Where it does not, an unknown outcome is reconciled, not sent again.
    deduplicates: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Hold an outcome and what led to it."""

    outcome: DeliveryOutcome
    #: The rule's short name, such as `status.410`, `phase.dns` or `partner.status.404`.
    rule: str
    #: The row of the table of situations behind it; None for a rule of the partner's file.
    row: int | None
    #: The partner wants no more deliveries at this address.
    disables_endpoint: bool = False


def decide(rules: PartnerRules, exchange: Exchange) -> DeliveryOutcome:
    """Return what the exchange means for the delivery."""
    return explain(rules, exchange).outcome


def explain(rules: PartnerRules, exchange: Exchange) -> Decision:
    """Return what the exchange means, with the rule behind it."""
    if exchange.status is None or exchange.phase not in ANSWERED:
        return _by_phase(rules, exchange)
    if rules.honour_delivery_headers and (decision := _by_delivery_header(exchange)):
        return decision
    rule = _status_rule(rules, exchange.status)
    if exchange.is_success and rule.verdict is Verdict.SUCCESS_CONFIRMED:
        return _by_success(rules, exchange, rule)
    return _by_status(exchange, rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finding:
    """Hold what a rule found before it becomes an outcome."""

    rule: str
    row: int | None
    code: SettlementFailureCode = SettlementFailureCode.VERIFICATION
    not_sent: bool = False
    counts_for_breaker: bool = True
    disables_endpoint: bool = False

    def decided(self, verdict: Verdict, exchange: Exchange) -> Decision:
        """Return the decision with this verdict."""
        outcome = self._outcome(verdict, exchange)
        return Decision(outcome=outcome, rule=self.rule, row=self.row, disables_endpoint=self.disables_endpoint)

    def _outcome(self, verdict: Verdict, exchange: Exchange) -> DeliveryOutcome:
        match verdict:
            case Verdict.SUCCESS_CONFIRMED:
                return SuccessConfirmed(rule=self.rule, evidence_sha256=exchange.body_sha256)
            case Verdict.FAILURE_CONFIRMED:
                reason = self._reason(self.code, exchange)
                return FailureConfirmed(reason=reason, rule=self.rule, disables_endpoint=self.disables_endpoint)
            case Verdict.ACCEPTED_PENDING_VERIFICATION:
                return AcceptedPendingVerification(rule=self.rule)
            case Verdict.INDETERMINATE:
                return self._indeterminate(exchange)
            case _:
                assert_never(verdict)

    def _indeterminate(self, exchange: Exchange) -> Indeterminate:
        # What is tried again has a code that may be.
        code = self.code if failures.may_retry(self.code) else SettlementFailureCode.BACKEND
        return Indeterminate(
            reason=self._reason(code, exchange),
            rule=self.rule,
            retry_after_ms=_retry_after_ms(exchange),
            not_sent=self.not_sent,
            counts_for_breaker=self.counts_for_breaker,
        )

    def _reason(self, code: SettlementFailureCode, exchange: Exchange) -> SettlementFailureReason:
        detail = exchange.detail or f"{self.rule} {exchange.status} {exchange.body_sha256}"
        return SettlementFailureReason.from_detail(code, detail)


def _by_phase(rules: PartnerRules, exchange: Exchange) -> Decision:
    # An answer without a status cannot be one: what went out is all that is known then.
    phase = Phase.SENT if exchange.phase in ANSWERED else exchange.phase
    rule = webhook_rules.PHASE_RULES[phase]
    if phase is Phase.SENT and not rules.deduplicates:
        pending = _Finding(rule="phase.sent.no_dedup", row=rule.row)
        return pending.decided(Verdict.ACCEPTED_PENDING_VERIFICATION, exchange)
    found = _Finding(rule=f"phase.{phase.value}", row=rule.row, code=rule.code, not_sent=rule.not_sent)
    return found.decided(rule.verdict, exchange)


def _by_delivery_header(exchange: Exchange) -> Decision | None:
    wish = exchange.headers.get(DELIVERY_HEADER, "").strip().lower()
    if wish not in {_ABORT, _DISABLE}:
        return None
    code = SettlementFailureCode.INVALID_BINDING if wish == _DISABLE else SettlementFailureCode.VERIFICATION
    rule = f"header.{DELIVERY_HEADER}.{wish}"
    found = _Finding(rule=rule, row=_HEADER_ROW, code=code, disables_endpoint=wish == _DISABLE)
    return found.decided(Verdict.FAILURE_CONFIRMED, exchange)


def _by_success(rules: PartnerRules, exchange: Exchange, rule: StatusRule) -> Decision:
    """Look at the body where the partner wants it, then wait for the receipt where it sends one."""
    finding = rules.body_rule.read(exchange) if rules.body_rule else BodyFinding.CLEAN
    if rules.body_rule and finding is BodyFinding.FAILURE:
        return _failed_by_body(rules.body_rule, exchange)
    if finding is BodyFinding.UNREADABLE:
        unread = _Finding(rule="body.unreadable", row=_BODY_ROW, code=SettlementFailureCode.BACKEND)
        return unread.decided(Verdict.INDETERMINATE, exchange)
    if rules.accepts_pending:
        pending = _Finding(rule="partner.accepts_pending", row=None)
        return pending.decided(Verdict.ACCEPTED_PENDING_VERIFICATION, exchange)
    return _by_status(exchange, rule)


def _failed_by_body(rule: BodyRule, exchange: Exchange) -> Decision:
    is_final = rule.outcome is Verdict.FAILURE_CONFIRMED
    code = SettlementFailureCode.VERIFICATION if is_final else SettlementFailureCode.BACKEND
    name = "body.error_member" if rule.error_member else "body.required_text"
    return _Finding(rule=name, row=_BODY_ROW, code=code).decided(rule.outcome, exchange)


def _by_status(exchange: Exchange, rule: StatusRule) -> Decision:
    found = _Finding(
        rule=rule.name,
        row=rule.row,
        code=rule.code,
        counts_for_breaker=rule.counts_for_breaker,
        disables_endpoint=rule.disables_endpoint,
    )
    instead = rule.verdict_with_retry_after
    asks_to_wait = instead is not None and _retry_after_ms(exchange) is not None
    return found.decided(instead if instead and asks_to_wait else rule.verdict, exchange)


def _status_rule(rules: PartnerRules, status: int) -> StatusRule:
    default = _default_rule(status)
    own = status_rules.narrowest(rules.status_rules, status)
    # A partner's rule changes the outcome; asking for patience (429) counts for no breaker under any rule.
    return replace(own, counts_for_breaker=default.counts_for_breaker) if own else default


@functools.cache
def _default_rule(status: int) -> StatusRule:
    return status_rules.narrowest(webhook_rules.STATUS_RULES, status) or webhook_rules.ANY_STATUS


def _retry_after_ms(exchange: Exchange) -> int | None:
    wait = retry_after.parse_retry_after(exchange.headers.get("retry-after", ""), exchange.ended_at)
    return None if wait is None else wait // timedelta(milliseconds=1)
