"""What a body means where a partner's terms ask for a look at it."""

from datetime import UTC, datetime

import pytest

from reliability.body_rules import BodyRule
from reliability.delivery import (
    DeliveryOutcome,
    FailureConfirmed,
    Indeterminate,
    SuccessConfirmed,
)
from reliability.exchange import Exchange, Phase
from reliability.partner_rules import PartnerRules, decide, explain
from reliability.status_rules import Verdict

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


@pytest.mark.parametrize(
    "rule, body, kind",
    [
        (None, b'{"error":"no"}', SuccessConfirmed),
        ("error", b'{"error":"no"}', FailureConfirmed),
        ("error", b'{"error":null}', SuccessConfirmed),
        ("error", b'{"ok":true}', SuccessConfirmed),
        ("error", b"not json", SuccessConfirmed),
        ("error", b'["error"]', SuccessConfirmed),
        ("error", b"[" * 100_000, SuccessConfirmed),
    ],
)
def test_error_member_counts_only_with_a_body_rule(rule: str | None, body: bytes, kind: type[DeliveryOutcome]) -> None:
    """A 200 with an error in its body is a success, unless the partner's rules say otherwise."""
    rules = PartnerRules(
        body_rule=BodyRule(outcome=Verdict.FAILURE_CONFIRMED, error_member=rule) if rule is not None else None
    )

    assert type(decide(rules, answered(200, body))) is kind


@pytest.mark.parametrize("body, kind", [(b"OK", SuccessConfirmed), (b"<html>", Indeterminate), (b"", Indeterminate)])
def test_required_text_must_stand_in_the_body(body: bytes, kind: type[DeliveryOutcome]) -> None:
    """A partner that says OK in its body has not taken a message it answered without."""
    rules = PartnerRules(body_rule=BodyRule(outcome=Verdict.INDETERMINATE, required_text="OK"))

    assert type(decide(rules, answered(200, body))) is kind


def test_body_that_came_in_part_leaves_the_outcome_unknown() -> None:
    """Where the body decides, half a body decides nothing."""
    rules = PartnerRules(body_rule=BodyRule(outcome=Verdict.FAILURE_CONFIRMED, error_member="error"))

    decision = explain(rules, answered(200, b'{"er', whole=False))

    assert isinstance(decision.outcome, Indeterminate)
    assert decision.rule == "body.unreadable"


def test_required_text_in_half_a_body_is_enough() -> None:
    """What was asked for is there, whatever would have followed."""
    rules = PartnerRules(body_rule=BodyRule(outcome=Verdict.INDETERMINATE, required_text="OK"))

    assert isinstance(decide(rules, answered(200, b"OK and more", whole=False)), SuccessConfirmed)
