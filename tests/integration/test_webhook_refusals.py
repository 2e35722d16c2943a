"""Deliveries that the webhook hook refuses before anything is sent."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from reliability.delivery import DeliveryOutcome, FailureConfirmed
from reliability.failures import SettlementFailureCode
from tests.support import partner as support
from tests.support.partner import RunningPartner, request

TLS = Path(__file__).parent.parent / "support" / "tls"
ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def partner(tmp_path: Path) -> Iterator[RunningPartner]:
    """Run a partner whose steps stand in the URL."""
    with support.running_partner(tmp_path / "partner.jsonl") as running:
        yield running


def refused(outcome: DeliveryOutcome) -> tuple[str, SettlementFailureCode]:
    """Return the rule and the code of a confirmed failure."""
    assert isinstance(outcome, FailureConfirmed), outcome
    return outcome.rule, outcome.reason.code


def test_unknown_partner_is_refused_unsent(partner: RunningPartner) -> None:
    """A partner that was removed since admission gets nothing."""
    outcome = partner.hook("ok").send(request(partner_id="nobody"))

    assert refused(outcome) == ("partner.unknown", SettlementFailureCode.INVALID_INPUT)
    assert partner.entries() == []


def test_disabled_partner_is_refused_unsent(partner: RunningPartner) -> None:
    """A partner that its file disables gets nothing."""
    outcome = partner.hook("ok", "disabled = true").send(request())

    assert refused(outcome) == ("partner.disabled", SettlementFailureCode.UNSUPPORTED)
    assert partner.entries() == []


def test_expired_delivery_is_refused_unsent(partner: RunningPartner) -> None:
    """A delivery past its expiry is a dead letter, and the partner never hears of it."""
    outcome = partner.hook("ok").send(request(expires_at=1_700_000_001))

    assert refused(outcome) == ("request.expired", SettlementFailureCode.INVALID_INPUT)
    assert partner.entries() == []


def test_header_that_is_not_allowed_any_more_is_refused_unsent(partner: RunningPartner) -> None:
    """A header that the partner allowed at admission and does not now is not sent."""
    outcome = partner.hook("ok").send(request(headers={"x-trace": "t-1"}))

    assert refused(outcome) == ("request.header", SettlementFailureCode.INVALID_INPUT)
    assert partner.entries() == []


def test_injected_header_is_refused_unsent(partner: RunningPartner) -> None:
    """A value that would end its line never reaches a connection, even if a decoder let it pass."""
    hook = partner.hook("ok", 'allowed_headers = ["x-trace"]')
    injected = request().model_copy(update={"headers": {"x-trace": "t\r\nx-evil: 1"}})

    assert refused(hook.send(injected)) == ("request.header", SettlementFailureCode.INVALID_INPUT)
    assert partner.entries() == []
