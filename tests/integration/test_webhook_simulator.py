"""The simulated partner itself: what it logs, what it remembers, and the receipts it sends later."""

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from reliability.delivery import FailureConfirmed, Indeterminate, SuccessConfirmed
from reliability.receipt import DeliveryReceipt, Verdict
from tests.support import partner_file
from tests.support.clock import ManualClock
from tests.support.partner import RunningPartner, request, running_partner
from tests.support.raw_server import RawServer, answer, answering, raw_server
from worker.simulators import partner_log
from worker.simulators.partner_log import Signature
from worker.simulators.partner_script import PartnerScript, ReceiptTarget

ROOT = Path(__file__).parent.parent.parent
_LONGEST_WAIT_S = 20.0
_POLL_S = 0.02
SECRETS = {"acme": ("env:ACME_SECRET",)}


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait until the condition holds."""
    give_up_at = time.monotonic() + _LONGEST_WAIT_S
    while not holds():
        assert time.monotonic() < give_up_at, f"did not come true within {_LONGEST_WAIT_S} s"
        time.sleep(_POLL_S)


def post(partner: RunningPartner, path: str, **headers: str) -> int:
    """Post an empty object without our client and return the status."""
    connection = http.client.HTTPConnection("127.0.0.1", partner.port, timeout=_LONGEST_WAIT_S)
    with contextlib.closing(connection):
        connection.request("POST", path, b"{}", {name.replace("_", "-"): value for name, value in headers.items()})
        return connection.getresponse().status


def test_message_takes_effect_once(tmp_path: Path) -> None:
    """A repeat with the same bytes is answered again and does nothing."""
    with running_partner(tmp_path / "log") as partner:
        hook = partner.hook("ok")
        outcomes = [hook.send(request()) for _ in range(3)]

    assert all(isinstance(outcome, SuccessConfirmed) for outcome in outcomes)
    assert [(entry.step, entry.effect, entry.attempt) for entry in partner.entries()] == [
        ("ok", True, 1),
        ("repeat", False, 2),
        ("repeat", False, 3),
    ]


def test_same_id_with_other_bytes_is_refused(tmp_path: Path) -> None:
    """Other bytes under a known id get 422, and the tally shows the key."""
    with running_partner(tmp_path / "log") as partner:
        hook = partner.hook("ok")
        hook.send(request(body=b"one"))
        second = hook.send(request(body=b"two"))

    tally = partner_log.tally(partner.entries())
    assert isinstance(second, Indeterminate)
    assert partner.entries()[-1].step == "mismatch"
    assert tally.keys_with_differing_bodies == ["delivery:acme:msg_1"]
    assert tally.keys_with_several_effects == []


def test_forged_request_is_refused(tmp_path: Path) -> None:
    """A request nobody signed gets 401, is logged as invalid and has no effect."""
    with running_partner(tmp_path / "log") as partner:
        status = post(partner, "/p/acme/ok", webhook_id="msg_1", webhook_timestamp="1", webhook_signature="v1,AAAA")

    (entry,) = partner.entries()
    assert status == 401
    assert (entry.signature, entry.effect, entry.answer) == (Signature.INVALID, False, "401")


def test_request_without_an_id_is_refused(tmp_path: Path) -> None:
    """Without an id a repeat could not be recognised, so nothing is taken."""
    with running_partner(tmp_path / "log", PartnerScript()) as partner:
        assert post(partner, "/p/acme/ok") == 401

    assert [entry.effect for entry in partner.entries()] == [False]


def test_path_that_holds_no_step_is_not_found(tmp_path: Path) -> None:
    """A mistyped step is answered 404 instead of being taken for something else."""
    with running_partner(tmp_path / "log", PartnerScript()) as partner:
        assert post(partner, "/p/acme/okay", webhook_id="m") == 404


def test_restart_remembers_what_was_taken(tmp_path: Path) -> None:
    """A partner that comes back on its log still drops repeats."""
    with running_partner(tmp_path / "log") as partner:
        partner.hook("ok").send(request())
    with running_partner(tmp_path / "log") as partner:
        partner.hook("ok").send(request())

    assert [entry.effect for entry in partner.entries()] == [True, False]


def test_partner_is_down_for_a_while(tmp_path: Path) -> None:
    """While it is down nothing is read and nothing takes effect; afterwards it takes what comes."""
    clock = ManualClock()
    with running_partner(tmp_path / "log", clock=clock) as partner:
        hook = partner.hook("down:0-8")
        down = hook.send(request())
        clock.advance(8_000)
        up = hook.send(request())

    assert isinstance(down, Indeterminate)
    assert isinstance(up, SuccessConfirmed)
    seen = [(entry.answer, entry.effect, bool(entry.body_sha256)) for entry in partner.entries()]
    assert seen == [("reset", False, False), ("200", True, True)]


def test_script_by_message_id(tmp_path: Path) -> None:
    """A script file may single out messages whatever the path says."""
    script = PartnerScript.from_document({"messages": {"bad-*": ["410"]}, "secrets": {"acme": ["env:ACME_SECRET"]}})
    with running_partner(tmp_path / "log", script) as partner:
        hook = partner.hook("ok")
        good, bad = hook.send(request("good-1")), hook.send(request("bad-1"))

    assert isinstance(good, SuccessConfirmed)
    assert isinstance(bad, FailureConfirmed)


@pytest.mark.parametrize("steps, verdict", [("confirm-late:0.01", "confirmed"), ("deny-late:0.01", "failed")])
def test_receipt_is_posted_later(tmp_path: Path, steps: str, verdict: str) -> None:
    """The receipt is signed with the partner's secret and says whose message it is about."""
    with raw_server(answering(answer())) as intake:
        script = PartnerScript(secrets=SECRETS, receipts=ReceiptTarget(url=intake.url))
        with running_partner(tmp_path / "log", script) as partner:
            hook = partner.hook(steps, "accepts_pending = true")
            hook.send(request())
            wait_until(lambda: bool(intake.requests))

    headers, body = parted(intake)
    receipt = DeliveryReceipt.from_json(body)
    assert (receipt.partner_id, receipt.message_id, receipt.says) == ("acme", "msg_1", Verdict(verdict))
    assert hook.directory.is_signed_by("acme", headers, body)


def parted(server: RawServer) -> tuple[dict[str, str], bytes]:
    """Return headers and body of the first request."""
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    pairs = (line.partition(": ") for line in head.decode().split("\r\n")[1:])
    return {name: value for name, _, value in pairs}, body


def test_receipt_is_appended_to_a_file_as_the_task_takes_it(tmp_path: Path) -> None:
    """Each line is the `signed` argument of the confirm task."""
    script = PartnerScript(secrets=SECRETS, receipts=ReceiptTarget(file=tmp_path / "receipts.jsonl"))
    with running_partner(tmp_path / "log", script) as partner:
        hook = partner.hook("confirm-late:0.01", "accepts_pending = true")
        hook.send(request())
        receipts = tmp_path / "receipts.jsonl"
        wait_until(lambda: receipts.exists() and receipts.read_text().endswith("\n"))

    signed = json.loads(receipts.read_text())
    assert set(signed) == {"partner_id", "headers", "body"}
    assert hook.directory.is_signed_by("acme", signed["headers"], signed["body"].encode())


def test_partner_that_never_confirms_sends_no_receipt(tmp_path: Path) -> None:
    """The message is taken and answered 202, also when it is sent again, and nothing else comes."""
    script = PartnerScript(secrets=SECRETS, receipts=ReceiptTarget(file=tmp_path / "receipts.jsonl"))
    with running_partner(tmp_path / "log", script) as partner:
        hook = partner.hook("never-confirm", "accepts_pending = true")
        hook.send(request())
        hook.send(request())

    assert [(entry.answer, entry.effect) for entry in partner.entries()] == [("202", True), ("202", False)]
    assert not (tmp_path / "receipts.jsonl").exists()


def test_partner_counts_what_it_saw(tmp_path: Path) -> None:
    """The totals are there to be asked for while it runs."""
    with running_partner(tmp_path / "log") as partner:
        partner.hook("500/ok").send(request())
        with urllib.request.urlopen(f"http://127.0.0.1:{partner.port}/__stats", timeout=_LONGEST_WAIT_S) as response:
            stats = json.load(response)

    assert (stats["requests"], stats["effects"], stats["answers"]) == (1, 0, {"500": 1})


@pytest.mark.process
def test_partner_runs_as_a_process_of_its_own(tmp_path: Path) -> None:
    """It says where it listens, reads its script and secrets, and ends in order on SIGTERM."""
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"secrets": {"acme": ["env:ACME_SECRET"]}}))
    code = (
        "import pathlib, sys; from worker.simulators import partner;"
        " partner.run_partner('127.0.0.1', 0, pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))"
    )
    log = tmp_path / "log.jsonl"
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(script), str(log)],
        cwd=ROOT,
        env={**os.environ, **partner_file.ENVIRON},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        found = re.fullmatch(r"partner simulator listens on http://127\.0\.0\.1:(\d+)\n", process.stdout.readline())
        assert found
        partner = RunningPartner(port=int(found[1]), log_path=log)
        outcome = partner.hook("ok").send(request())
        process.send_signal(signal.SIGTERM)
        assert process.wait(_LONGEST_WAIT_S) == 0
    finally:
        process.kill()
        process.communicate()

    assert isinstance(outcome, SuccessConfirmed)
    assert [entry.signature for entry in partner.entries()] == [Signature.VALID]
