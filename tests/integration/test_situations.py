"""
One test for each row of the table of situations in docs/partners.md, with its right decision, over a real socket.

The number in a test's name is the row. Rows that are about receipts and crashes instead of an answer are tested where
those happen: `ELSEWHERE` says where, and a test here compares both with the table.
"""

import re
import socket
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from reliability import circuit, delivery, outcomes
from reliability.as2_rules import Disposition, Receipt, ReceiptMode, as2_outcome
from reliability.delivery import (
    AcceptedPendingVerification,
    DeliveryOutcome,
    FailureConfirmed,
    Indeterminate,
    SuccessConfirmed,
)
from reliability.exchange import Exchange
from reliability.failures import SettlementFailureCode
from reliability.outcomes import SettlementResult
from reliability.reconciliation import ReconciliationRequest
from reliability.retry import RetryPolicy
from tasks.hooks.http_client import HttpClient
from tasks.hooks.http_exchange import HttpRequest
from tasks.hooks.http_settlement import HttpSettlementHook
from tasks.hooks.webhook import evidence_of
from tests.support import partner as support
from tests.support.observations import observation
from tests.support.partner import RunningPartner, request
from tests.support.rail import running_rail
from worker.simulators.rail_script import RailScript

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs" / "partners.md"
NOW = datetime(2026, 3, 1, tzinfo=UTC)
POLICY = RetryPolicy(max_retries=3, initial_backoff_ms=250, backoff_multiplier=2, backoff_cap_ms=60_000)
#: Rows that no single answer shows.
ELSEWHERE = {
    32: "tests/flows/test_confirm_flow.py",
    33: "tests/flows/test_confirm_flow.py",
    34: "tests/acceptance",
    35: "tests/acceptance",
}


@pytest.fixture
def partner(tmp_path: Path) -> Iterator[RunningPartner]:
    """Run a partner whose steps stand in the URL."""
    with support.running_partner(tmp_path / "partner.jsonl") as running:
        yield running


def sent(partner: RunningPartner, steps: str, terms: str = "", *, deadline_s: float = 2.0) -> DeliveryOutcome:
    """Send one message that meets these steps."""
    return partner.hook(steps, terms, deadline_s=deadline_s).send(request())


def indeterminate(outcome: DeliveryOutcome) -> Indeterminate:
    """Take an outcome that must be indeterminate."""
    assert isinstance(outcome, Indeterminate), outcome
    return outcome


def failed(outcome: DeliveryOutcome) -> FailureConfirmed:
    """Take an outcome that must be a confirmed failure."""
    assert isinstance(outcome, FailureConfirmed), outcome
    return outcome


def next_delay(outcome: DeliveryOutcome, *, max_elapsed_s: int | None = None) -> timedelta:
    """Return when the first attempt is repeated."""
    unknown = indeterminate(outcome)
    assert delivery.RetryDecision.from_outcome(unknown).should_retry
    budget = delivery.RetryBudget(max_elapsed=None if max_elapsed_s is None else timedelta(seconds=max_elapsed_s))
    first = delivery.FailedAttempt(attempt=0, first_attempt_at_ms=0, retry_after_ms=unknown.retry_after_ms)
    plan = delivery.plan_retry(POLICY, budget, first, now_ms=0)
    assert isinstance(plan, delivery.NextAttempt)
    return plan.delay


def is_final(outcome: DeliveryOutcome) -> bool:
    """Tell whether nothing is sent again and nothing is waited for."""
    decision = delivery.RetryDecision.from_outcome(outcome)
    return not decision.should_retry and entry_of(outcome) is None


def entry_of(outcome: DeliveryOutcome) -> ReconciliationRequest | None:
    """Return what waits in reconciliation after the outcome."""
    return ReconciliationRequest.for_outcome(outcome, "msg_1", "acme", NOW)


def as2_exchange(partner: RunningPartner, steps: str) -> Exchange:
    """Make the HTTP exchange that an AS2 message would be; its partner has no webhook secret to check."""
    prepared = HttpRequest(
        url=partner.url(steps, "as2"), body=b"message", headers={"webhook-id": "as2"}, total_deadline_s=2.0
    )
    return evidence_of(HttpClient().post(prepared), NOW)


def receipt(disposition: str, *, mic_matches: bool = True) -> Receipt:
    """Make the receipt with this disposition."""
    parsed = Disposition.parse(f"automatic-action/MDN-sent-automatically; {disposition}")
    assert parsed is not None
    return Receipt(disposition=parsed, mic_matches=mic_matches)


def rail_answer(log_path: Path, *steps: str, times: int = 1, **facts: object) -> SettlementResult:
    """Settle one receipt on a rail that meets it with these steps; return the answer to the last request."""
    script = RailScript.from_document({"default": list(steps)})
    with running_rail(log_path, script) as rail:
        hook = HttpSettlementHook(url=rail.url, total_deadline_s=2.0)
        answers = [hook.observe(observation()) for _ in range(times - 1)]
        answers.append(hook.observe(observation(**facts)))
    return answers[-1]


@pytest.mark.parametrize(
    "found", [receipt("processed/error: authentication-failed"), receipt("processed", mic_matches=False)]
)
def test_row_01_as2_error_disposition_or_mic_mismatch(partner: RunningPartner, found: Receipt) -> None:
    """An AS2 answer 200 whose receipt tells an error, or another MIC, is a dead letter with its code."""
    outcome = failed(as2_outcome(ReceiptMode.SYNCHRONOUS, as2_exchange(partner, "200"), found))

    assert outcome.reason.code is SettlementFailureCode.VERIFICATION
    assert is_final(outcome)


def test_row_02_as2_good_receipt(partner: RunningPartner) -> None:
    """An AS2 answer 200 with a receipt whose MIC is ours is done."""
    outcome = as2_outcome(ReceiptMode.SYNCHRONOUS, as2_exchange(partner, "200"), receipt("processed"))

    assert isinstance(outcome, SuccessConfirmed)


def test_row_03_as2_without_a_readable_receipt(partner: RunningPartner) -> None:
    """A 2xx without the receipt that was asked for is sent again under the same id."""
    outcome = as2_outcome(ReceiptMode.SYNCHRONOUS, as2_exchange(partner, "200"), None)

    assert next_delay(outcome) == timedelta(milliseconds=250)


def test_row_04_as2_asynchronous_receipt(partner: RunningPartner) -> None:
    """A 2xx says that the transfer worked; the receipt is awaited."""
    outcome = as2_outcome(ReceiptMode.ASYNCHRONOUS, as2_exchange(partner, "202"), None)

    assert isinstance(outcome, AcceptedPendingVerification)
    assert entry_of(outcome) is not None


def test_row_05_as2_duplicate_document(partner: RunningPartner) -> None:
    """A warning that our repeat is a duplicate means that the delivery is done."""
    found = receipt("processed/warning: duplicate-document")
    outcome = as2_outcome(ReceiptMode.SYNCHRONOUS, as2_exchange(partner, "200"), found)

    assert isinstance(outcome, SuccessConfirmed)
    assert outcome.rule == "as2.processed.duplicate_document"


@pytest.mark.parametrize("why", ["unsupported MIC-algorithms", "unsupported format"])
def test_row_06_as2_failed_disposition(partner: RunningPartner, why: str) -> None:
    """What the partner cannot process at all is final until the agreement is changed."""
    found = receipt(f"failed/Failure: {why}")
    outcome = failed(as2_outcome(ReceiptMode.SYNCHRONOUS, as2_exchange(partner, "200"), found))

    assert outcome.reason.code is SettlementFailureCode.UNSUPPORTED


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


def test_row_07_required_text_in_the_body(partner: RunningPartner) -> None:
    """A partner that writes OK has taken the message; one that writes something else has not."""
    terms = 'body_rule = { outcome = "indeterminate", required_text = "OK" }'

    assert isinstance(sent(partner, "ok", terms), SuccessConfirmed)
    assert isinstance(sent(partner, "body-error", terms), SuccessConfirmed)


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


def test_row_09_rail_202(tmp_path: Path) -> None:
    """A rail's 202 is non-committal: the settlement waits in reconciliation."""
    assert isinstance(rail_answer(tmp_path / "rail.jsonl", "202"), outcomes.Pending)


def test_row_10_rail_409_for_a_finished_key(tmp_path: Path) -> None:
    """A rail that had settled the key before is done, under the transcript it names."""
    answer = rail_answer(tmp_path / "rail.jsonl", "409")

    assert isinstance(answer, outcomes.Accepted)
    assert answer.transcript_id.startswith("tr-")


def test_row_12_rail_422_for_other_parameters(tmp_path: Path) -> None:
    """A key that comes with other bytes is never tried again."""
    answer = rail_answer(tmp_path / "rail.jsonl", "ok", times=2, tool_name="search.other")

    assert isinstance(answer, outcomes.Permanent)


def test_row_13_gone_ends_the_subscription(partner: RunningPartner) -> None:
    """After 410 the message is a dead letter and nothing more is sent until the partners are loaded again."""
    hook = partner.hook("410/ok")

    first, second = hook.send(request("msg_1")), hook.send(request("msg_2"))
    hook.directory.reload()
    third = hook.send(request("msg_1"))

    assert (failed(first).rule, failed(second).rule) == ("status.410", "partner.disabled")
    assert isinstance(third, SuccessConfirmed)
    assert [entry.message_id for entry in partner.entries()] == ["msg_1", "msg_1"]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 415])
def test_row_14_client_errors_of_a_webhook(partner: RunningPartner, status: int) -> None:
    """A webhook's refusal is tried again within the budget and counts for the breaker."""
    outcome = indeterminate(sent(partner, str(status)))

    assert outcome.counts_for_breaker
    assert next_delay(outcome) == timedelta(milliseconds=250)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 415])
def test_row_14_client_errors_of_as2_and_of_a_rail(partner: RunningPartner, tmp_path: Path, status: int) -> None:
    """AS2 and settlements do not repeat what is not transient."""
    exchange = as2_exchange(partner, str(status))

    assert isinstance(as2_outcome(ReceiptMode.ASYNCHRONOUS, exchange, None), FailureConfirmed)
    assert isinstance(rail_answer(tmp_path / "rail.jsonl", str(status)), outcomes.Permanent)


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
    outcome = indeterminate(sent(partner, steps, deadline_s=0.4))

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
    outcome = indeterminate(sent(partner, "drip-headers", deadline_s=0.4))

    assert outcome.rule == "phase.sent"


def test_row_27_slow_body(partner: RunningPartner) -> None:
    """Once the headers are there the status counts, however long the body takes."""
    outcome = sent(partner, "drip-body", deadline_s=0.4)

    assert isinstance(outcome, SuccessConfirmed)


def test_row_27_slow_body_where_the_body_decides(partner: RunningPartner) -> None:
    """With a body rule half a body leaves the outcome unknown."""
    terms = 'body_rule = { outcome = "failure_confirmed", error_member = "error" }'

    assert indeterminate(sent(partner, "drip-body", terms, deadline_s=0.4)).rule == "body.unreadable"


@pytest.mark.parametrize("steps", ["huge:50000000", "endless", "gzip-bomb:50000000"])
def test_row_29_body_past_the_cap(partner: RunningPartner, steps: str) -> None:
    """A body is read up to the cap and not decompressed; the status counts, and a digest is kept."""
    outcome = sent(partner, steps, deadline_s=5.0)

    assert isinstance(outcome, SuccessConfirmed)
    assert re.fullmatch("[0-9a-f]{64}", outcome.evidence_sha256)


def test_row_31_abort_message(partner: RunningPartner) -> None:
    """A partner that opted in may end one message; the next one goes out."""
    hook = partner.hook("abort-message", "honour_delivery_headers = true")

    first, second = hook.send(request("msg_1")), hook.send(request("msg_2"))

    assert failed(first).rule == failed(second).rule == "header.webhook-delivery.abort-message"
    assert len(partner.entries()) == 2


def test_row_31_disable(partner: RunningPartner) -> None:
    """A partner that opted in may end its subscription; the next message is not sent."""
    hook = partner.hook("disable", "honour_delivery_headers = true")

    first, second = hook.send(request("msg_1")), hook.send(request("msg_2"))

    assert failed(first).rule == "header.webhook-delivery.disable"
    assert failed(second).rule == "partner.disabled"
    assert len(partner.entries()) == 1


def test_row_31_means_nothing_without_the_opt_in(partner: RunningPartner) -> None:
    """The header of a partner that did not opt in is ignored."""
    assert indeterminate(sent(partner, "disable")).rule == "status.500"


def test_every_row_of_the_table_is_tested() -> None:
    """Each row that docs/partners.md lists has a test here, or is named with the place of its test."""
    listed = {int(row) for row in re.findall(r"^\| (\d+) \|", DOCS.read_text(encoding="utf-8"), re.MULTILINE)}
    here = {int(found[1]) for name in dir(sys.modules[__name__]) if (found := re.match(r"test_row_(\d\d)", name))}

    assert here | set(ELSEWHERE) == listed
    assert here.isdisjoint(ELSEWHERE)
    assert all((ROOT / place).exists() for place in ELSEWHERE.values())
