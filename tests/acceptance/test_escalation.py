"""
Two beats and four workers sweep at once, and each stale entry is escalated exactly once.

For ten seconds by default; `CHIO_ACCEPTANCE_ESCALATION_S=60` runs as long as the product is held to.
"""

import itertools
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.support import exchange
from tests.support.exchange import Exchange, told
from worker.cli import census
from worker.simulators.partner_script import PartnerScript

RUN_S: Final = float(os.environ.get("CHIO_ACCEPTANCE_ESCALATION_S", "10"))
#: So many entries grow stale at a time.
ROUND: Final = 40
SETTINGS: Final[Mapping[str, str]] = {"CHIO_MAX_PENDING_AGE_S": "1", "CHIO_ESCALATION_PERIOD_S": "1"}
#: The partner takes every delivery and confirms none, until it comes again.
SCRIPT: Final = PartnerScript.from_document(
    {"default": ["never-confirm", "ok"], "secrets": {"acme": ["env:ACME_SECRET"]}}
)
TICK: Final = "Sending due task escalate-stale-entries"

pytestmark = [
    pytest.mark.server,
    pytest.mark.process,
    pytest.mark.timeout(int(150 + 2 * RUN_S)),
]


@pytest.fixture
def deployment(redis_url: str, tmp_path: Path) -> Iterator[Exchange]:
    """Run a deployment whose partner answers 202 first and 200 to a repeat."""
    with exchange.running(tmp_path, redis_url, script=SCRIPT, settings=SETTINGS) as found:
        found.partners_file.write_text(
            f"""
[partners.acme]
url = "http://127.0.0.1:{found.partner.port}/p/acme"
secrets = ["env:ACME_SECRET"]
deadline_s = 2
allow_private_networks = ["127.0.0.0/8"]
status_rules = {{ "202" = "accepted_pending_verification" }}
"""
        )
        yield found


def test_two_beats_and_four_workers_escalate_each_entry_once(deployment: Exchange) -> None:
    """However many sweep at once, one event for each entry, one repeat to the partner, and every delivery confirmed."""
    beats = [deployment.beat() for _ in range(2)]
    workers = [deployment.worker(pool="threads", concurrency=1) for _ in range(4)]
    for worker in workers:
        worker.wait_until_ready()
    end_s = time.monotonic() + RUN_S
    sent: list[str] = []

    for number in itertools.takewhile(lambda _: time.monotonic() < end_s, itertools.count()):
        messages = [f"m-{number:04}-{each:02}" for each in range(ROUND)]
        deployment.send(*messages)
        sent += messages
        deployment.wait_until_idle()

    escalated = told(deployment.events("reconciliation.escalated"), "job_id")
    assert escalated == dict.fromkeys([f"delivery:acme:{message}" for message in sent], 1)
    tally = deployment.tally()
    assert set(tally.requests_per_key.values()) == {2}
    assert (len(tally.requests_per_key), tally.effects, tally.keys_with_differing_bodies) == (len(sent), len(sent), [])
    assert sum(deployment.counts().finished.values()) == len(sent)
    assert census.take(deployment.storage).is_balanced
    assert sum(deployment.storage.reconciliation.counts().values()) == 0
    assert all(beat.log_text().count(TICK) >= RUN_S / 3 for beat in beats)
