"""What each answer of a webhook partner means: the defaults of the situations table, then a partner's own rules."""

from datetime import UTC, datetime

import pytest

from reliability.delivery import (
    AcceptedPendingVerification,
    DeliveryOutcome,
    FailureConfirmed,
    Indeterminate,
    SuccessConfirmed,
)
from reliability.exchange import Exchange, Phase
from reliability.failures import SettlementFailureCode, may_retry
from reliability.partner_rules import PartnerRules, decide, explain
from reliability.status_rules import status_rules_from_wire

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
DEFAULTS = PartnerRules()


def answered(status: int, body: bytes = b"", *, whole: bool = True, **headers: str) -> Exchange:
    """Make the exchange of an answer; underscores in header names stand for hyphens."""
    return Exchange(
        phase=Phase.BODY if whole else Phase.STATUS,
        ended_at=NOW,
        status=status,
        headers={name.replace("_", "-"): value for name, value in headers.items()},
        body=body,
        body_is_whole=whole,
        body_sha256="ab" * 32,
    )


def ended(phase: Phase) -> Exchange:
    """Make the exchange of a request that got no status."""
    return Exchange(phase=phase, ended_at=NOW, detail="why")


def indeterminate(outcome: DeliveryOutcome) -> Indeterminate:
    """Take an outcome that must be indeterminate."""
    assert isinstance(outcome, Indeterminate)
    return outcome


@pytest.mark.parametrize(
    "status, kind, rule, row",
    [
        (200, SuccessConfirmed, "status.2xx", 7),
        (204, SuccessConfirmed, "status.2xx", 7),
        (202, SuccessConfirmed, "status.202", 8),
        (410, FailureConfirmed, "status.410", 13),
        (400, Indeterminate, "status.400", 14),
        (401, Indeterminate, "status.401", 14),
        (403, Indeterminate, "status.403", 14),
        (404, Indeterminate, "status.404", 14),
        (405, Indeterminate, "status.405", 14),
        (415, Indeterminate, "status.415", 14),
        (409, Indeterminate, "status.4xx", 14),
        (413, FailureConfirmed, "status.413", 15),
        (429, Indeterminate, "status.429", 16),
        (503, Indeterminate, "status.503", 17),
        (500, Indeterminate, "status.500", 18),
        (507, Indeterminate, "status.5xx", 18),
        (502, Indeterminate, "status.502", 19),
        (504, Indeterminate, "status.504", 19),
        (408, Indeterminate, "status.408", 20),
        (421, Indeterminate, "status.421", 20),
        (425, Indeterminate, "status.425", 20),
        (301, FailureConfirmed, "status.3xx", 21),
        (308, FailureConfirmed, "status.3xx", 21),
        (304, FailureConfirmed, "status.3xx", 21),
        (999, Indeterminate, "status.100-999", 18),
        (100, Indeterminate, "status.100-999", 18),
    ],
)
def test_default_of_each_status(status: int, kind: type[DeliveryOutcome], rule: str, row: int) -> None:
    """Each status has the outcome of its row, and says which rule that was."""
    decision = explain(DEFAULTS, answered(status))

    assert (type(decision.outcome), decision.rule, decision.row) == (kind, rule, row)
    assert decision.outcome.rule == rule


@pytest.mark.parametrize(
    "phase, kind, not_sent, row",
    [
        (Phase.POLICY, FailureConfirmed, None, 22),
        (Phase.DNS, Indeterminate, True, 23),
        (Phase.CONNECT, Indeterminate, True, 23),
        (Phase.TLS, Indeterminate, True, 23),
        (Phase.SENDING, Indeterminate, True, 26),
        (Phase.SENT, Indeterminate, False, 25),
    ],
)
def test_default_of_each_phase(phase: Phase, kind: type[DeliveryOutcome], not_sent: bool | None, row: int) -> None:
    """Without a status the phase decides, and only what never left whole counts as not sent."""
    decision = explain(DEFAULTS, ended(phase))

    assert (type(decision.outcome), decision.row, decision.rule) == (kind, row, f"phase.{phase.value}")
    assert getattr(decision.outcome, "not_sent", None) is not_sent


def test_blocked_address_has_the_code_of_a_wrong_dispatch() -> None:
    """An address that policy refuses fails with a code that is never retried."""
    outcome = decide(DEFAULTS, ended(Phase.POLICY))

    assert isinstance(outcome, FailureConfirmed)
    assert outcome.reason.code is SettlementFailureCode.INVALID_DISPATCH


def test_phase_of_an_answer_without_status_counts_as_sent() -> None:
    """Evidence that contradicts itself is read as the least certain: the request may be there."""
    assert explain(DEFAULTS, ended(Phase.BODY)).rule == "phase.sent"


def test_only_patience_spares_the_breaker() -> None:
    """429 does not count for the breaker; every other indeterminate answer does."""
    counted = {
        status: indeterminate(decide(DEFAULTS, answered(status))).counts_for_breaker
        for status in (404, 408, 429, 500, 503)
    }

    assert counted == {404: True, 408: True, 429: False, 500: True, 503: True}


def test_patience_spares_the_breaker_under_a_rule_of_the_partner() -> None:
    """A partner's rule that covers 429 changes the outcome's name and not what 429 says of its health."""
    rules = PartnerRules(status_rules=status_rules_from_wire({"4xx": "indeterminate"}))

    assert indeterminate(decide(rules, answered(429))).counts_for_breaker is False
    assert indeterminate(decide(rules, answered(404))).counts_for_breaker is True


@pytest.mark.parametrize(
    "value, wait_ms",
    [
        ("120", 120_000),
        ("0", 0),
        ("Sun, 01 Mar 2026 12:02:00 GMT", 120_000),
        ("Sunday, 01-Mar-26 12:02:00 GMT", 120_000),
        ("Sun Mar  1 12:02:00 2026", 120_000),
        ("Sun, 01 Mar 2026 11:00:00 GMT", 0),
        ("soon", None),
        ("-5", None),
    ],
)
def test_retry_after_in_each_form(value: str, wait_ms: int | None) -> None:
    """Retry-After is read in seconds and in three date forms; the past means now and garbage nothing."""
    outcome = indeterminate(decide(DEFAULTS, answered(503, retry_after=value)))

    assert outcome.retry_after_ms == wait_ms


def test_too_large_with_retry_after_is_tried_again() -> None:
    """413 is final, but with Retry-After the partner says that the same bytes may pass later."""
    outcome = indeterminate(decide(DEFAULTS, answered(413, retry_after="60")))

    assert (outcome.retry_after_ms, outcome.rule) == (60_000, "status.413")


def test_too_large_with_a_garbled_retry_after_is_final() -> None:
    """A Retry-After that says nothing changes nothing."""
    assert isinstance(decide(DEFAULTS, answered(413, retry_after="later")), FailureConfirmed)


def test_gone_disables_the_endpoint() -> None:
    """410 ends the delivery and the subscription; other failures end the delivery only."""
    assert explain(DEFAULTS, answered(410)).disables_endpoint is True
    assert explain(DEFAULTS, answered(413)).disables_endpoint is False


def test_narrowest_rule_of_the_partner_wins() -> None:
    """A partner's single status beats its class, and its class beats the defaults."""
    spans = {"4xx": "failure_confirmed", "404": "indeterminate", "500-503": "accepted_pending_verification"}
    rules = PartnerRules(status_rules=status_rules_from_wire(spans))

    decided = {status: explain(rules, answered(status)).rule for status in (400, 404, 410, 502, 504)}

    assert decided == {
        400: "partner.status.4xx",
        404: "partner.status.404",
        410: "partner.status.4xx",
        502: "partner.status.500-503",
        504: "status.504",
    }


@pytest.mark.parametrize(
    "outcome, kind",
    [
        ("success_confirmed", SuccessConfirmed),
        ("failure_confirmed", FailureConfirmed),
        ("indeterminate", Indeterminate),
        ("accepted_pending_verification", AcceptedPendingVerification),
    ],
)
def test_partner_may_choose_any_outcome(outcome: str, kind: type[DeliveryOutcome]) -> None:
    """A status rule may name each of the four outcomes, and no row backs it but the partner's own word."""
    rules = PartnerRules(status_rules=status_rules_from_wire({"409": outcome}))

    decision = explain(rules, answered(409))

    assert (type(decision.outcome), decision.row) == (kind, None)


def test_success_keeps_the_digest_of_the_answer() -> None:
    """A confirmed success holds what the partner answered as a digest."""
    outcome = decide(DEFAULTS, answered(200))

    assert isinstance(outcome, SuccessConfirmed)
    assert outcome.evidence_sha256 == "ab" * 32


def test_pending_partner_waits_for_its_receipt_after_any_success() -> None:
    """Where the partner confirms later, a 2xx is accepted and not confirmed."""
    rules = PartnerRules(accepts_pending=True)

    assert isinstance(decide(rules, answered(200)), AcceptedPendingVerification)
    assert isinstance(decide(rules, answered(202)), AcceptedPendingVerification)
    assert isinstance(decide(rules, answered(500)), Indeterminate)


@pytest.mark.parametrize("wish, disables", [("abort-message", False), ("disable", True), (" Disable ", True)])
def test_delivery_header_is_honoured_where_the_partner_opted_in(wish: str, disables: bool) -> None:
    """`webhook-delivery` ends the message, and `disable` the subscription as well."""
    rules = PartnerRules(honour_delivery_headers=True)

    decision = explain(rules, answered(500, webhook_delivery=wish))

    assert isinstance(decision.outcome, FailureConfirmed)
    assert (decision.disables_endpoint, decision.row) == (disables, 31)


def test_delivery_header_means_nothing_by_default() -> None:
    """Without the opt-in the status alone decides."""
    assert explain(DEFAULTS, answered(500, webhook_delivery="disable")).rule == "status.500"


def test_unknown_delivery_header_means_nothing() -> None:
    """A wish that nobody defined is ignored."""
    rules = PartnerRules(honour_delivery_headers=True)

    assert explain(rules, answered(500, webhook_delivery="pause")).rule == "status.500"


def test_partner_without_dedup_is_not_sent_the_same_again() -> None:
    """Where a repeat could act twice, an unknown outcome waits in reconciliation instead of going out again."""
    rules = PartnerRules(deduplicates=False)

    assert isinstance(decide(rules, ended(Phase.SENT)), AcceptedPendingVerification)
    assert isinstance(decide(rules, ended(Phase.SENDING)), Indeterminate)


def test_what_is_tried_again_has_a_code_that_may_be() -> None:
    """No status gives an indeterminate outcome a code that the taxonomy calls permanent."""
    outcomes = [decide(DEFAULTS, answered(status, retry_after="1")) for status in range(100, 1000)]

    repeated = [outcome for outcome in outcomes if isinstance(outcome, Indeterminate)]

    assert len(repeated) > 600
    assert all(may_retry(outcome.reason.code) for outcome in repeated)


def test_detail_of_a_failure_is_hashed_only() -> None:
    """What the network library said is part of the digest and of nothing else."""
    one, other = (
        indeterminate(decide(DEFAULTS, Exchange(phase=Phase.CONNECT, ended_at=NOW, detail=detail)))
        for detail in ("secret-host refused", "secret-host unreachable")
    )

    assert one.reason.detail_sha256 != other.reason.detail_sha256
    assert "secret" not in repr(one)
