"""The webhook hook over real sockets: what is sent, over which connection, and what is refused before anything is."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from standardwebhooks import Webhook

from reliability.clock import SystemClock
from reliability.delivery import Indeterminate, SuccessConfirmed
from reliability.errors import ConfigurationError
from tasks import confirm_flow, delivery_flow, hooks
from tasks.hooks import webhook
from tasks.hooks.loading import load_delivery_hook
from tasks.hooks.webhook import WebhookDeliveryHook
from tests.support import partner as support
from tests.support import partner_file
from tests.support.clock import ManualClock
from tests.support.partner import RunningPartner, request
from tests.support.raw_server import RawServer, answer, answering, raw_server
from worker.simulators.partner_log import Signature

TLS = Path(__file__).parent.parent / "support" / "tls"
ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def partner(tmp_path: Path) -> Iterator[RunningPartner]:
    """Run a partner whose steps stand in the URL."""
    with support.running_partner(tmp_path / "partner.jsonl") as running:
        yield running


def sent_headers(server: RawServer) -> dict[str, str]:
    """Return the headers of the first request, names in lower case."""
    head = server.requests[0].partition(b"\r\n\r\n")[0].decode()
    pairs = (line.partition(": ") for line in head.split("\r\n")[1:])
    return {name.lower(): value for name, _, value in pairs}


def test_partner_gets_the_stored_bytes_signed(partner: RunningPartner) -> None:
    """The body arrives byte for byte under the message's id with a signature that the library accepts."""
    body = '{"text":"Grüße",  "n":1.0}\n'.encode()

    outcome = partner.hook("ok").send(request(body=body))

    (entry,) = partner.entries()
    assert isinstance(outcome, SuccessConfirmed)
    assert entry.signature == Signature.VALID
    assert (entry.message_id, entry.effect) == ("msg_1", True)


@pytest.mark.parametrize("body", [b"", b"\xff\xfe\x00", b"x" * 1_000_000])
def test_any_body_is_signed_and_sent(partner: RunningPartner, body: bytes) -> None:
    """An empty body, one that is no text, and a large one all verify at the receiver."""
    outcome = partner.hook("ok").send(request(body=body))

    assert isinstance(outcome, SuccessConfirmed)
    assert [entry.signature for entry in partner.entries()] == [Signature.VALID]


def test_headers_of_a_request(tmp_path: Path) -> None:
    """The request has its content type, the allowed headers, the three of the signature, and no others of ours."""
    with raw_server(answering(answer())) as server:
        hook = support.hook_for(tmp_path, server.url, 'allowed_headers = ["x-trace"]')
        hook.send(request(headers={"x-trace": "t-1"}, content_type="application/json; charset=utf-8"))

    headers = sent_headers(server)
    assert set(headers) - {"host", "accept", "accept-encoding", "user-agent", "content-length"} == {
        "content-type",
        "x-trace",
        "webhook-id",
        "webhook-timestamp",
        "webhook-signature",
    }
    assert (headers["content-type"], headers["x-trace"]) == ("application/json; charset=utf-8", "t-1")


def test_every_attempt_has_the_same_id_and_its_own_time(tmp_path: Path) -> None:
    """A repeat is recognised by its id and not taken for a replay, since its timestamp is its own."""
    clock = ManualClock()
    with raw_server(answering(answer(status="500 Oops"))) as server:
        directory = support.hook_for(tmp_path, server.url).directory
        hook = WebhookDeliveryHook(directory, clock)
        hook.send(request())
        clock.advance(60_000)
        hook.send(request())

    first, second = (raw.partition(b"\r\n\r\n")[0].decode() for raw in server.requests)
    assert "webhook-id: msg_1" in first.lower()
    assert "webhook-id: msg_1" in second.lower()
    assert "webhook-timestamp: 1700000000" in first.lower()
    assert "webhook-timestamp: 1700000060" in second.lower()


def test_both_secrets_sign_during_a_rotation(tmp_path: Path) -> None:
    """With two secrets a receiver that has either of them accepts the request."""
    with raw_server(answering(answer())) as server:
        text = f"""
[partners.acme]
url = "{server.url}"
secrets = ["env:ACME_NEXT_SECRET", "env:ACME_SECRET"]
allow_private_networks = ["127.0.0.0/8"]
"""
        WebhookDeliveryHook(partner_file.directory(tmp_path, text), SystemClock()).send(request())

    for secret in (partner_file.SECRET, partner_file.NEXT_SECRET):
        Webhook(secret).verify(b'{"n":1}', sent_headers(server))


def test_reload_sends_to_the_new_url(partner: RunningPartner) -> None:
    """What is in force when an attempt begins is where it goes."""
    hook = partner.hook("500")
    first = hook.send(request())

    path = partner.log_path.parent / "partners.toml"
    path.write_text(path.read_text().replace("/p/acme/500", "/p/acme/ok"))
    hook.directory.reload()

    assert isinstance(first, Indeterminate)
    assert isinstance(hook.send(request()), SuccessConfirmed)


def test_failing_run_logs_no_detail(partner: RunningPartner, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever goes wrong, nothing that is logged holds the body, the secret or the partner's answer."""
    caplog.set_level("DEBUG")

    for steps in ("body-error", "500", "reset-after-body", "redirect"):
        partner.hook(steps).send(request(f"msg_{steps}", body=b"payload-of-the-message"))

    assert "payload-of-the-message" not in caplog.text
    assert partner_file.SECRET not in caplog.text
    assert "scripted partner" not in caplog.text


def test_directory_and_hook_are_what_the_flows_ask_for(partner: RunningPartner) -> None:
    """One directory tells the flow its terms and the receipts their trust; the hook keeps the hook's contract."""
    hook: hooks.DeliveryHook = partner.hook("ok")
    book: delivery_flow.PartnerBook = partner.hook("ok").directory
    policy: confirm_flow.ReceiptPolicy = partner.hook("ok").directory

    terms = book.terms_of("acme")
    assert isinstance(hook, hooks.DeliveryHook)
    assert terms is not None
    assert terms.policy.max_retries == 5
    assert policy.must_be_signed("acme")


def test_hook_is_loaded_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path that settings name gives a hook made of the partner file in the environment."""
    monkeypatch.setenv("CHIO_PARTNERS_FILE", str(partner_file.write(tmp_path, partner_file.MINIMAL)))
    monkeypatch.setenv("ACME_SECRET", partner_file.SECRET)

    hook = load_delivery_hook("tasks.hooks.webhook:from_environment")

    assert isinstance(hook, WebhookDeliveryHook)
    assert set(hook.directory.partners) == {"acme"}


def test_hook_without_a_partner_file_stops_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable to set is named."""
    monkeypatch.delenv("CHIO_PARTNERS_FILE", raising=False)
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ConfigurationError, match="CHIO_PARTNERS_FILE is not set"):
        webhook.from_environment()


def test_partner_file_may_be_named_where_the_worker_reads_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hook finds the file that `.env` names, as the worker does."""
    monkeypatch.delenv("CHIO_PARTNERS_FILE", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text(f"CHIO_PARTNERS_FILE={partner_file.write(tmp_path, partner_file.MINIMAL)}")
    monkeypatch.setenv("ACME_SECRET", partner_file.SECRET)

    assert set(webhook.from_environment().directory.partners) == {"acme"}


def test_module_is_imported_on_its_own() -> None:
    """Partners and hook can be imported first, in either order: no import waits for another."""
    for module in ("tasks.hooks.webhook", "tasks.partners", "tasks.delivery_flow"):
        subprocess.run([sys.executable, "-c", f"import {module}"], check=True, cwd=ROOT)
