"""Rows of the table of situations where the network, the address or the pace of an answer decides."""

import re
import socket
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from reliability import delivery
from reliability.delivery import (
    AcceptedPendingVerification,
    SuccessConfirmed,
)
from reliability.failures import SettlementFailureCode
from tests.support import partner as support
from tests.support.partner import RunningPartner, request
from tests.support.situations import STALLED_S, entry_of, failed, indeterminate, is_final, next_delay, sent


@pytest.fixture
def partner(tmp_path: Path) -> Iterator[RunningPartner]:
    """Run a partner whose steps stand in the URL."""
    with support.running_partner(tmp_path / "partner.jsonl") as running:
        yield running


def test_row_22_redirect_to_an_inner_address(partner: RunningPartner) -> None:
    """A redirect to a metadata address is as final as any other."""
    assert failed(sent(partner, "redirect-private")).rule == "status.3xx"


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.0.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "::1",
        "fe80::1",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
    ],
)
def test_row_22_name_that_resolves_inside(
    partner: RunningPartner, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """A name whose address is not public is blocked when it is resolved, in every form; nothing is sent."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    place = (address, partner.port, 0, 0) if ":" in address else (address, partner.port)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(family, socket.SOCK_STREAM, 6, "", place)])
    hook = support.public_hook(partner.log_path.parent, f"http://hooks.acme.example:{partner.port}/p/acme/ok")

    outcome = failed(hook.send(request()))

    assert (outcome.rule, outcome.reason.code) == ("phase.policy", SettlementFailureCode.INVALID_DISPATCH)
    assert is_final(outcome)
    assert partner.entries() == []


@pytest.mark.parametrize("host", ["2130706433", "0x7f.1", "0177.0.0.1", "127.1"])
def test_row_22_loopback_in_disguise(partner: RunningPartner, host: str) -> None:
    """An address that only the resolver reads as loopback is blocked all the same."""
    hook = support.public_hook(partner.log_path.parent, f"http://{host}:{partner.port}/p/acme/ok")

    assert failed(hook.send(request())).rule == "phase.policy"
    assert partner.entries() == []


def test_row_23_name_that_does_not_resolve(partner: RunningPartner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an address nothing was sent: it is tried again, counts for the breaker, and nothing waits."""

    def no_such_name(*_: object, **__: object) -> list[object]:
        raise socket.gaierror(socket.EAI_NONAME, "no such name")

    monkeypatch.setattr(socket, "getaddrinfo", no_such_name)
    hook = support.public_hook(partner.log_path.parent, "http://hooks.acme.example/")

    outcome = indeterminate(hook.send(request()))

    assert (outcome.rule, outcome.not_sent, outcome.counts_for_breaker) == ("phase.dns", True, True)
    assert entry_of(outcome) is None


def test_row_23_refused_connection(tmp_path: Path) -> None:
    """A refused connection is tried again, and there is nothing to reconcile."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        hook = support.hook_for(tmp_path, f"http://127.0.0.1:{closed.getsockname()[1]}/")
        outcome = indeterminate(hook.send(request()))

    assert (outcome.rule, outcome.not_sent) == ("phase.connect", True)
    assert next_delay(outcome) == timedelta(milliseconds=250)
    assert entry_of(outcome) is None


def test_row_23_peer_without_tls(partner: RunningPartner) -> None:
    """A peer that cannot prove who it is gets nothing of the message."""
    hook = support.hook_for(partner.log_path.parent, partner.url().replace("http:", "https:"))

    outcome = indeterminate(hook.send(request()))

    assert (outcome.rule, outcome.not_sent) == ("phase.tls", True)
    assert partner.entries() == []


@pytest.mark.parametrize("steps", ["reset-after-body", "hang"])
def test_row_25_no_answer_after_the_request_went_out(partner: RunningPartner, steps: str) -> None:
    """The partner may have acted: the same id goes out again, and reconciliation knows of it."""
    outcome = indeterminate(sent(partner, steps, deadline_s=STALLED_S))

    assert (outcome.rule, outcome.not_sent) == ("phase.sent", False)
    assert entry_of(outcome) is not None
    assert next_delay(outcome) == timedelta(milliseconds=250)


def test_row_25_repeat_takes_effect_once(partner: RunningPartner) -> None:
    """A partner that had acted before it hung up drops the repeat by its id."""
    hook = partner.hook("reset-after-body/ok")

    hook.send(request())
    second = hook.send(request())

    assert isinstance(second, SuccessConfirmed)
    assert [(entry.step, entry.effect) for entry in partner.entries()] == [
        ("reset-after-body", True),
        ("repeat", False),
    ]


def test_row_25_partner_without_dedup_is_reconciled_instead(partner: RunningPartner) -> None:
    """Where a repeat could act twice, nothing is sent again before somebody looked."""
    outcome = sent(partner, "reset-after-body", "deduplicates = false")

    assert isinstance(outcome, AcceptedPendingVerification)
    assert not delivery.RetryDecision.from_outcome(outcome).should_retry


def test_row_26_reset_before_the_body_was_complete(partner: RunningPartner) -> None:
    """What the partner cannot have whole was not delivered: it is sent again and nothing waits."""
    outcome = indeterminate(partner.hook("reset-before-body").send(request(body=b"x" * 16_000_000)))

    assert (outcome.rule, outcome.not_sent) == ("phase.sending", True)
    assert entry_of(outcome) is None


def test_row_27_slow_headers(partner: RunningPartner) -> None:
    """Headers that never end meet the one deadline, and nobody knows what they would have said."""
    outcome = indeterminate(sent(partner, "drip-headers", deadline_s=STALLED_S))

    assert outcome.rule == "phase.sent"


def test_row_27_slow_body(partner: RunningPartner) -> None:
    """Once the headers are there the status counts, however long the body takes."""
    outcome = sent(partner, "drip-body", deadline_s=STALLED_S)

    assert isinstance(outcome, SuccessConfirmed)


def test_row_27_slow_body_where_the_body_decides(partner: RunningPartner) -> None:
    """With a body rule half a body leaves the outcome unknown."""
    terms = 'body_rule = { outcome = "failure_confirmed", error_member = "error" }'

    assert indeterminate(sent(partner, "drip-body", terms, deadline_s=STALLED_S)).rule == "body.unreadable"


@pytest.mark.parametrize("steps", ["huge:50000000", "endless", "gzip-bomb:50000000"])
def test_row_29_body_past_the_cap(partner: RunningPartner, steps: str) -> None:
    """A body is read up to the cap and not decompressed; the status counts, and a digest is kept."""
    outcome = sent(partner, steps, deadline_s=5.0)

    assert isinstance(outcome, SuccessConfirmed)
    assert re.fullmatch("[0-9a-f]{64}", outcome.evidence_sha256)
