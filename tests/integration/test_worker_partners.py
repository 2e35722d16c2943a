"""Workers and their partner file: refused at the start, read again on SIGHUP, and a partner's end heeded by all."""

import json
import os
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from reliability.receipt import Verdict
from tasks import names, publishing
from tests.support import exchange, partner_file
from tests.support.exchange import Exchange
from tests.support.partner import SCRIPT
from tests.support.worker_process import WorkerProcess, poll
from worker.simulators.partner_receipts import signed_receipt

pytestmark = [pytest.mark.server, pytest.mark.process]

LIMIT_S = 30.0
CLOSED_URL = "redis://127.0.0.1:1/0"


@pytest.fixture
def deployment(redis_url: str, tmp_path: Path) -> Iterator[Exchange]:
    """Run a deployment whose partner does what its URL says."""
    with exchange.running(tmp_path, redis_url, script=SCRIPT) as found:
        yield found


def write(deployment: Exchange, steps: str, more: str = "") -> None:
    """Write the partner file: its URL says what the partner does."""
    deployment.partners_file.write_text(
        f"""
[partners.acme]
url = "{deployment.partner.url(steps)}"
secrets = ["env:ACME_SECRET"]
deadline_s = 2
allow_private_networks = ["127.0.0.0/8"]
{more}
"""
    )


def delivered(deployment: Exchange) -> set[str]:
    """Return the messages that took effect at the partner."""
    return {entry.message_id for entry in deployment.partner.entries() if entry.effect}


def hang_up(worker: WorkerProcess) -> None:
    """Tell the worker's main process to read the file again, as an operator does."""
    os.kill(worker.pid, signal.SIGHUP)


def wait_for(deployment: Exchange, event: str, number: int) -> None:
    """Wait until so many events were told."""
    poll(lambda: len(deployment.events(event)) >= number, LIMIT_S, f"{number} x {event}")


def test_a_broken_partner_file_is_refused_at_the_start(redis_url: str, tmp_path: Path) -> None:
    """The worker ends with 2 before it takes a message, and every problem of the file is told."""
    broken = partner_file.MINIMAL + 'typo = 1\n[partners.bolt]\nurl = "http://hooks.bolt.example/"\n'
    environ = {"CHIO_PARTNERS_FILE": str(partner_file.write(tmp_path, broken)), **partner_file.ENVIRON}

    worker = WorkerProcess(tmp_path / "w1", redis_url, environ=environ)

    assert worker.start().wait(LIMIT_S) == 2
    for problem in ("typo: expected no such field", "bolt', url: ", "bolt', secrets: expected this field"):
        assert problem in worker.log_text()
    assert "Traceback" not in worker.log_text()


@pytest.mark.parametrize(
    "terms,sentence",
    [
        ("deadline_s = 40", "CHIO_SOFT_TIME_LIMIT_S (30) must exceed the longest deadline of a partner (40 s)"),
        (
            "retry = { max_retries = 9, initial_backoff_ms = 86400000, backoff_cap_ms = 86400000 }",
            "CHIO_DEDUP_WINDOW_S (172800) must be at least",
        ),
    ],
)
def test_partners_that_do_not_fit_the_settings_are_refused(
    redis_url: str, tmp_path: Path, terms: str, sentence: str
) -> None:
    """A deadline past the time limit, or retries past the dedup window, stop the start with what to change."""
    environ = {
        "CHIO_PARTNERS_FILE": str(partner_file.write(tmp_path, partner_file.MINIMAL + terms)),
        **partner_file.ENVIRON,
    }

    worker = WorkerProcess(tmp_path / "w1", redis_url, environ=environ)

    assert worker.start().wait(LIMIT_S) == 2
    assert sentence in worker.log_text()


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_sighup_reads_the_file_again(deployment: Exchange, pool: str) -> None:
    """Main process and pool processes send to the new address; the worker and its processes go on."""
    write(deployment, "302")
    worker = deployment.worker(pool=pool).wait_until_ready()
    deployment.send("before-1", "before-2")
    deployment.wait_until_idle()
    processes = worker.children()

    write(deployment, "ok")
    hang_up(worker)
    wait_for(deployment, "partners.reloaded", 3 if pool == "prefork" else 1)
    deployment.send(*(f"after-{number}" for number in range(6)))
    deployment.wait_until_idle()

    assert delivered(deployment) == {f"after-{number}" for number in range(6)}
    assert worker.children() == processes
    assert deployment.counts().dead == 2


def test_a_broken_file_leaves_the_old_partners_in_force(deployment: Exchange) -> None:
    """Its problems are told, deliveries go out as before, also by a pool process that starts only then."""
    write(deployment, "ok")
    worker = deployment.worker(concurrency=1).wait_until_ready()
    deployment.send("msg-0")
    deployment.wait_until_idle()

    write(deployment, "500", "typo = 1")
    hang_up(worker)
    wait_for(deployment, "partners.refused", 1)
    os.kill(worker.children()[0], signal.SIGKILL)
    deployment.send("msg-1", "msg-2")
    deployment.wait_until_idle()

    assert delivered(deployment) == {"msg-0", "msg-1", "msg-2"}
    assert "typo: expected no such field" in worker.log_text()
    assert deployment.events("partners.reloaded") == []


def test_a_file_that_does_not_fit_the_settings_is_not_put_in_force(deployment: Exchange) -> None:
    """What would have stopped the start is refused later too."""
    write(deployment, "ok")
    worker = deployment.worker(concurrency=1).wait_until_ready()

    deployment.partners_file.write_text(deployment.partners_file.read_text().replace("= 2", "= 200"))
    hang_up(worker)
    wait_for(deployment, "partners.refused", 1)

    assert "must exceed the longest deadline of a partner (200 s)" in worker.log_text()
    assert worker.is_running


def test_a_partner_that_is_gone_is_left_alone_by_all_workers(deployment: Exchange) -> None:
    """One delivery meets 410 and is dead; the rest wait in two workers until an operator enables the partner."""
    write(deployment, "410/ok")
    workers = [deployment.worker(concurrency=1) for _ in range(2)]
    for worker in workers:
        worker.wait_until_ready()
    deployment.send("first")
    deployment.wait_until_idle()

    deployment.send(*(f"msg-{number}" for number in range(10)))
    wait_for(deployment, "delivery.deferred", 10)
    requests_while_stopped = len(deployment.partner.entries())
    status = deployment.command("partners", "status")["partners"]

    assert requests_while_stopped == 1
    assert [partner["held_back_by"] for partner in status] == ["partner stopped"]
    assert len(deployment.events("partner.stopped")) == 1
    assert {event["attempt"] for event in deployment.events("delivery.deferred")} == {0}
    assert deployment.command("partners", "enable", "acme")["enabled"] is True


def test_doctor_finds_what_is_wrong_with_the_file(deployment: Exchange) -> None:
    """What would stop a worker's start is told before anybody starts one."""
    write(deployment, "ok", "typo = 1")
    broken = deployment.command("doctor", code=1)
    write(deployment, "ok")

    whole = deployment.command("doctor")

    findings = [finding["sentence"] for finding in broken["findings"] if finding["check"] == "partners"]
    assert len(findings) == 1
    assert "typo: expected no such field" in findings[0]
    assert whole["safe"] is True


def test_receipts_that_come_as_messages(deployment: Exchange) -> None:
    """A signed one ends its delivery, a forged one and one of an unknown delivery change nothing and are kept."""
    write(deployment, "never-confirm", "accepts_pending = true")
    deployment.worker(concurrency=1).wait_until_ready()
    deployment.send("msg-1", "msg-2")
    poll(lambda: sum(deployment.storage.reconciliation.counts().values()) == 2, LIMIT_S, "both to wait")

    for message_id, secret in (
        ("msg-1", partner_file.SECRET),
        ("msg-2", partner_file.NEXT_SECRET),
        ("msg-3", partner_file.SECRET),
    ):
        receipt = signed_receipt(Verdict.CONFIRMED, "acme", message_id, secret, datetime.now(UTC))
        arguments = {"signed": json.loads(receipt.to_json())}
        deployment.operator.app.send_task(
            names.CONFIRM_DELIVERY, kwargs=arguments, queue=names.DELIVERY_QUEUE, **publishing.NO_LIMITS
        )
    poll(lambda: deployment.storage.quarantine.counts().entries == 2, LIMIT_S, "two receipts to be set aside")
    poll(lambda: deployment.storage.jobs.get("delivery:acme:msg-1") is None, LIMIT_S, "one delivery to end")

    reasons = {entry.reason for entry in deployment.storage.quarantine.list(10)}
    assert reasons == {"invalid_message:signed.headers", "invalid_message:receipt_unknown"}
    assert deployment.storage.jobs.get("delivery:acme:msg-2") is not None
    assert len(deployment.events("reconciliation.reconciled")) == 1
    assert len(deployment.events("receipt.unknown")) == 1
