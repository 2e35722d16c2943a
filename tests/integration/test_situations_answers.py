"""Rows of the table of situations where a webhook partner answers: statuses, bodies and headers."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from reliability import circuit
from reliability.delivery import (
    AcceptedPendingVerification,
    DeliveryOutcome,
    FailureConfirmed,
    Indeterminate,
    SuccessConfirmed,
)
from reliability.failures import SettlementFailureCode
from tests.support import partner as support
from tests.support.partner import RunningPartner, request
from tests.support.situations import entry_of, failed, indeterminate, is_final, next_delay, sent


@pytest.fixture
def partner(tmp_path: Path) -> Iterator[RunningPartner]:
    """Run a partner whose steps stand in the URL."""
    with support.running_partner(tmp_path / "partner.jsonl") as running:
        yield running


def test_row_07_success_with_an_error_in_the_body(partner: RunningPartner) -> None:
    """A 200 is a success whatever its body says."""
    assert isinstance(sent(partner, "body-error"), SuccessConfirmed)


@pytest.mark.parametrize("outcome, kind", [("failure_confirmed", FailureConfirmed), ("indeterminate", Indeterminate)])
def test_row_07_error_in_the_body_with_a_body_rule(
    partner: RunningPartner, outcome: str, kind: type[DeliveryOutcome]
) -> None:
    """Where the partner's terms have a body rule, its outcome counts."""
    terms = f'body_rule = {{ outcome = "{outcome}", error_member = "error" }}'

    assert type(sent(partner, "body-error", terms)) is kind


@pytest.mark.parametrize("steps, kind", [("ok", SuccessConfirmed), ("body-error", Indeterminate)])
def test_row_07_required_text_in_the_body(partner: RunningPartner, steps: str, kind: type[DeliveryOutcome]) -> None:
    """A partner that writes OK has taken the message; one that writes something else has not."""
    terms = 'body_rule = { outcome = "indeterminate", required_text = "OK" }'

    assert type(sent(partner, steps, terms)) is kind


def test_row_08_webhook_202(partner: RunningPartner) -> None:
    """A webhook's 202 is done."""
    outcome = sent(partner, "202")

    assert isinstance(outcome, SuccessConfirmed)
    assert outcome.rule == "status.202"


def test_row_08_202_of_a_partner_that_confirms_later(partner: RunningPartner) -> None:
    """Where the partner's terms say that a receipt follows, it is awaited."""
    outcome = sent(partner, "never-confirm", "accepts_pending = true")

    assert isinstance(outcome, AcceptedPendingVerification)
    assert entry_of(outcome) is not None


def test_row_13_gone_ends_the_subscription(partner: RunningPartner) -> None:
    """After 410 the message is a dead letter, and the partner wants no more at this address."""
    outcome = failed(sent(partner, "410"))

    assert is_final(outcome)
    assert (outcome.rule, outcome.disables_endpoint) == ("status.410", True)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 415])
def test_row_14_client_errors_of_a_webhook(partner: RunningPartner, status: int) -> None:
    """A webhook's refusal is tried again within the budget and counts for the breaker."""
    outcome = indeterminate(sent(partner, str(status)))

    assert outcome.counts_for_breaker
    assert next_delay(outcome) == timedelta(milliseconds=250)


def test_row_14_partner_rule_makes_a_client_error_final(partner: RunningPartner) -> None:
    """Sources differ, so a partner's terms may say that 404 is final."""
    outcome = failed(sent(partner, "404", 'status_rules = { "404" = "failure_confirmed" }'))

    assert outcome.rule == "partner.status.404"


def test_row_15_too_large(partner: RunningPartner) -> None:
    """413 is final."""
    assert failed(sent(partner, "413")).reason.code is SettlementFailureCode.INVALID_INPUT


def test_row_15_too_large_for_now(partner: RunningPartner) -> None:
    """413 with Retry-After may pass later."""
    assert next_delay(sent(partner, "413:30")) == timedelta(seconds=30)


def test_row_16_too_many_requests(partner: RunningPartner) -> None:
    """429 waits as long as it asks, within the budget, and does not count for the breaker."""
    outcome = indeterminate(sent(partner, "429:120"))

    assert not outcome.counts_for_breaker
    assert circuit.signal_of(outcome) is circuit.Signal.THROTTLED
    assert next_delay(outcome) == timedelta(seconds=120)
    assert next_delay(outcome, max_elapsed_s=60) == timedelta(seconds=60)


@pytest.mark.parametrize("form", ["imf", "rfc850", "asctime"])
def test_row_17_retry_after_as_a_date(partner: RunningPartner, form: str) -> None:
    """A date in any of its three forms is a wait from now."""
    outcome = indeterminate(sent(partner, f"503:{form}+120"))

    assert outcome.retry_after_ms is not None
    assert 110_000 < outcome.retry_after_ms <= 120_000


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("value, wait_ms", [("imf-60", 0), ("asctime-60", 0), ("soon", None), ("-1", None)])
def test_row_17_retry_after_in_the_past_or_garbled(
    partner: RunningPartner, status: int, value: str, wait_ms: int | None
) -> None:
    """The past means now and garbage means nothing: the backoff counts."""
    outcome = indeterminate(sent(partner, f"{status}:{value}"))

    assert outcome.retry_after_ms == wait_ms
    assert next_delay(outcome) == timedelta(milliseconds=250)


def test_row_18_server_error_is_sent_again_under_the_same_id(partner: RunningPartner) -> None:
    """A 500 is sent again with the same id and the same bytes, and takes effect once."""
    hook = partner.hook("500/ok")

    first, second = hook.send(request()), hook.send(request())

    assert isinstance(first, Indeterminate)
    assert isinstance(second, SuccessConfirmed)
    assert [(entry.message_id, entry.effect) for entry in partner.entries()] == [("msg_1", False), ("msg_1", True)]
    assert len({entry.body_sha256 for entry in partner.entries()}) == 1


@pytest.mark.parametrize("status", [502, 504])
def test_row_19_gateway_errors_are_ambiguous(partner: RunningPartner, status: int) -> None:
    """The origin may have acted, so the delivery is sent again and reconciled."""
    outcome = indeterminate(sent(partner, str(status)))

    assert not outcome.not_sent
    assert entry_of(outcome) is not None
    assert next_delay(outcome) == timedelta(milliseconds=250)


@pytest.mark.parametrize("status", [408, 421, 425])
def test_row_20_statuses_that_ask_for_another_try(partner: RunningPartner, status: int) -> None:
    """These statuses say that the same request may pass later."""
    assert next_delay(sent(partner, str(status))) == timedelta(milliseconds=250)


@pytest.mark.parametrize("steps", ["301", "302", "307", "308", "redirect"])
def test_row_21_redirects_are_never_followed(partner: RunningPartner, steps: str) -> None:
    """A redirect is a failure for the partner's owner to mend; nothing arrives at its target."""
    outcome = failed(sent(partner, steps))

    assert outcome.rule == "status.3xx"
    assert [entry.partner_id for entry in partner.entries()] == ["acme"]


def test_row_31_abort_message(partner: RunningPartner) -> None:
    """A partner that opted in may end one message; the next one goes out."""
    hook = partner.hook("abort-message", "honour_delivery_headers = true")

    first, second = hook.send(request("msg_1")), hook.send(request("msg_2"))

    assert failed(first).rule == failed(second).rule == "header.webhook-delivery.abort-message"
    assert len(partner.entries()) == 2


def test_row_31_disable(partner: RunningPartner) -> None:
    """A partner that opted in may end its subscription: no more goes to this address."""
    outcome = failed(sent(partner, "disable", "honour_delivery_headers = true"))

    assert (outcome.rule, outcome.disables_endpoint) == ("header.webhook-delivery.disable", True)


def test_row_31_means_nothing_without_the_opt_in(partner: RunningPartner) -> None:
    """The header of a partner that did not opt in is ignored."""
    assert indeterminate(sent(partner, "disable")).rule == "status.500"
