"""
Deliveries from a file to a misbehaving partner, under two workers of which one is killed and replaced.

300 of them by default; `CHIO_ACCEPTANCE_DELIVERIES=10000` sends as many as the product is held to.
"""

import json
import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from storage.jobs import JobState
from tests.support import exchange
from tests.support.exchange import LIMIT_S, Exchange, told
from tests.support.worker_process import WorkerProcess, poll
from worker.simulators.partner_log import Signature
from worker.simulators.partner_script import PartnerScript

DELIVERIES: Final = int(os.environ.get("CHIO_ACCEPTANCE_DELIVERIES", "300"))
#: A run of ten thousand may take as long as its size asks for.
RUN_LIMIT_S: Final = LIMIT_S + DELIVERIES / 20

pytestmark = [
    pytest.mark.server,
    pytest.mark.process,
    pytest.mark.timeout(int(180 + DELIVERIES / 10)),
]

#: What happens to a delivery, by how its id begins; each set of steps is taken in turn.
TRANSIENT: Final = (["503", "ok"], ["500", "502", "ok"], ["reset-after-body"], ["reset-before-body", "ok"])
PERMANENT: Final = (["413"], ["302"])
CONFIRMED_LATE: Final = (["confirm-late:0.1"],)
NEVER_CONFIRMED: Final = (["never-confirm", "ok"],)
#: Of every twenty: four meet trouble that passes, one is refused, one is confirmed later, one never; thirteen are well,
#: one of them slowly, so that a worker is killed in the middle of something.
OF_TWENTY: Final[Sequence[tuple[str, Sequence[list[str]]]]] = (
    *(("transient", TRANSIENT),) * 4,
    ("permanent", PERMANENT),
    ("late", CONFIRMED_LATE),
    ("never", NEVER_CONFIRMED),
    ("slow", (["slow:0.3"],)),
    *(("well", (["ok"],)),) * 12,
)
#: Their partner takes first and confirms later.
PENDING: Final = frozenset({"late", "never"})
SETTINGS: Final[Mapping[str, str]] = {"CHIO_MAX_PENDING_AGE_S": "1", "CHIO_ESCALATION_PERIOD_S": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """Hold one delivery of the file."""

    kind: str
    message_id: str

    @property
    def partner_id(self) -> str:
        """Return whom it goes to."""
        return "later" if self.kind in PENDING else "acme"

    @property
    def job_id(self) -> str:
        """Return its id in the ledger and in the partner's log."""
        return f"delivery:{self.partner_id}:{self.message_id}"

    def line(self) -> str:
        """Return its line of the file; no two bodies are alike."""
        return json.dumps(
            {
                "schema": "chio.deliver.request.v1",
                "message_id": self.message_id,
                "partner_id": self.partner_id,
                "content_type": "application/json",
                "body": json.dumps({"message": self.message_id, "filler": "x" * 200}),
                "created_at": 1_750_000_000,
            }
        )


def deliveries() -> list[Sent]:
    """Return the deliveries in the order of the file."""
    found = []
    for number in range(DELIVERIES):
        kind, choices = OF_TWENTY[number * 7 % len(OF_TWENTY)]
        found.append(Sent(kind=kind, message_id=f"{kind}-{number // len(OF_TWENTY) % len(choices)}-{number:05}"))
    return found


def script(receipts: Path) -> PartnerScript:
    """Return what the partner does: by the kind and the choice in a message's id."""
    messages = {f"{kind}-{choice}-*": steps for kind, choices in OF_TWENTY for choice, steps in enumerate(choices)}
    return PartnerScript.from_document(
        {
            "messages": messages,
            "secrets": {"acme": ["env:ACME_SECRET"], "later": ["env:ACME_SECRET"]},
            "receipts": {"file": str(receipts)},
        }
    )


def partners(deployment: Exchange) -> str:
    """Return the partner file: both at the same simulator, where 202 means that the receipt comes later."""
    return "\n".join(
        f"""
[partners.{name}]
url = "http://127.0.0.1:{deployment.partner.port}/p/{name}"
secrets = ["env:ACME_SECRET"]
deadline_s = 2
allow_private_networks = ["127.0.0.0/8"]
status_rules = {{ "202" = "accepted_pending_verification" }}
retry = {{ max_retries = 8, initial_backoff_ms = 100, backoff_cap_ms = 1000 }}
breaker = {{ failure_threshold = 5, cool_down_ms = 300 }}
"""
        for name in ("acme", "later")
    )


@pytest.fixture
def deployment(redis_url: str, tmp_path: Path) -> Iterator[Exchange]:
    """Run a deployment whose partners are written."""
    receipts = tmp_path / "receipts.jsonl"
    with exchange.running(tmp_path, redis_url, script=script(receipts), settings=SETTINGS) as found:
        found.partners_file.write_text(partners(found))
        yield found


def number_of(sent: Sequence[Sent], *kinds: str) -> int:
    """Count the deliveries of some kinds."""
    return sum(each.kind in kinds for each in sent)


def awaiting(deployment: Exchange) -> int:
    """Count the deliveries that wait for a receipt."""
    return deployment.counts().in_flight.get(JobState.AWAITING, 0)


def is_sending(deployment: Exchange, worker: WorkerProcess) -> bool:
    """Tell whether one of the worker's processes holds a lease."""
    owners = {row.owner for row in deployment.storage.jobs.rows(JobState.LEASED, 1_000)}
    return any(f"{socket.gethostname()}:{pid}" in owners for pid in worker.children())


def run_until_only_receipts_are_missing(deployment: Exchange, sent: Sequence[Sent]) -> None:
    """Send the file under two workers, kill one of them on the way and replace it."""
    file = deployment.directory / "deliveries.jsonl"
    file.write_text("".join(f"{each.line()}\n" for each in sent))
    first, second = deployment.worker(), deployment.worker()
    for worker in (first, second):
        worker.wait_until_ready()

    report = deployment.command("enqueue", "delivery", str(file))
    poll(lambda: sum(deployment.counts().finished.values()) > len(sent) // 5, RUN_LIMIT_S, "a fifth to be confirmed")
    first.kill_session_when(lambda: is_sending(deployment, first), RUN_LIMIT_S, "the first worker to hold a lease")
    deployment.worker()
    poll(lambda: deployment.in_flight() == awaiting(deployment), RUN_LIMIT_S, "everything but receipts to be done")

    assert report["admitted"] == len(sent)
    assert deployment.events("job.lease_expired")


def check_escalations(deployment: Exchange, sent: Sequence[Sent]) -> None:
    """Of those that nobody confirmed each was escalated once, except where a killed worker had not recorded a 202."""
    escalated = told(deployment.events("reconciliation.escalated"), "job_id")
    unrecorded = set(told(deployment.events("job.lease_expired"), "job_id"))
    never = {each.job_id for each in sent if each.kind == "never"}

    assert set(escalated.values()) <= {1}
    assert set(escalated) <= never
    assert never - set(escalated) <= unrecorded
    assert escalated


def check_partner(deployment: Exchange, sent: Sequence[Sent]) -> None:
    """Every delivery that was not refused took effect once, under its own bytes and a valid signature."""
    tally = deployment.tally()

    assert tally.keys_with_differing_bodies == []
    assert tally.keys_with_several_effects == []
    assert set(tally.effects_per_key) == {each.job_id for each in sent if each.kind != "permanent"}
    read = [entry for entry in deployment.partner.entries() if entry.body_sha256]
    assert {entry.signature for entry in read} == {Signature.VALID}


def check_status(deployment: Exchange, sent: Sequence[Sent]) -> None:
    """Compare `status` with what the partner saw: every delivery is confirmed or dead, and nothing is left."""
    status = deployment.command("status")
    refused = number_of(sent, "permanent")
    counted = status["kinds"]["delivery"]

    assert status["balanced"] is True
    assert (counted["admitted"], counted["confirmed"], counted["dead"]) == (len(sent), len(sent) - refused, refused)
    assert (counted["in_flight"], counted["duplicates"], counted["conflicts"]) == (0, 0, 0)
    assert status["reconciliation"] == {"indeterminate": 0, "pending_verification": 0}
    assert status["dead_letters"]["stored"] == refused
    assert status["quarantine"]["entries"] == 0


def test_every_delivery_is_accounted_for(deployment: Exchange) -> None:
    """Partner log and `status` agree; every pending one was confirmed by its receipt or escalated exactly once."""
    sent, started_s = deliveries(), time.monotonic()

    run_until_only_receipts_are_missing(deployment, sent)
    sent_s = time.monotonic() - started_s
    handed_in = deployment.command("enqueue", "receipts", str(deployment.directory / "receipts.jsonl"))
    deployment.beat()
    deployment.wait_until_idle(RUN_LIMIT_S)

    keep_figures(deployment, sent_s, time.monotonic() - started_s)
    assert handed_in["resolved"] == number_of(sent, "late")
    assert handed_in["unknown"] + handed_in["conflicting"] + handed_in["invalid"] == 0
    check_escalations(deployment, sent)
    check_partner(deployment, sent)
    check_status(deployment, sent)


def keep_figures(deployment: Exchange, sent_s: float, all_s: float) -> None:
    """Write what a run took beside its logs, for whoever asks."""
    figures = {
        "deliveries": DELIVERIES,
        "sent_s": round(sent_s, 1),
        "all_s": round(all_s, 1),
        "requests": deployment.tally().requests,
        "incidents": len(deployment.events("incident.opened")),
        "deferred": len(deployment.events("delivery.deferred")),
        "escalated": len(deployment.events("reconciliation.escalated")),
        "leases_expired": len(deployment.events("job.lease_expired")),
    }
    (deployment.directory / "figures.json").write_text(json.dumps(figures))
