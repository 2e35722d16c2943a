"""
Two beats with celery-redbeat: one ticks and the other stands by, and takes over when the first is killed.

Both log in as `beat` of the shipped ACL, so this also shows that its rights are enough for the lock and the schedule.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.support import exchange
from tests.support.cli_process import chio_worker
from tests.support.exchange import Exchange, told
from tests.support.secured import SecuredServer
from tests.support.worker_process import CelerySubprocess, poll
from worker.simulators.partner_script import PartnerScript

pytestmark = [
    pytest.mark.server,
    pytest.mark.process,
    pytest.mark.timeout(240),
]

#: One tick a second, so a lock of five: the next beat ticks at most six seconds after the first one died.
SETTINGS: Final[Mapping[str, str]] = {
    "CHIO_MAX_PENDING_AGE_S": "1",
    "CHIO_ESCALATION_PERIOD_S": "1",
    "CHIO_BEAT_SCHEDULER": "redbeat",
}
#: The partner takes every delivery and confirms none, until it comes again.
SCRIPT: Final = PartnerScript.from_document(
    {"default": ["never-confirm", "ok"], "secrets": {"acme": ["env:ACME_SECRET"]}}
)
TICK: Final = "Sending due task escalate-stale-entries"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SecuredServer]:
    """Run a server with the shipped users."""
    with SecuredServer(tmp_path / "redis") as server:
        yield server


@pytest.fixture
def deployment(server: SecuredServer, tmp_path: Path) -> Iterator[Exchange]:
    """Run a deployment whose partner answers 202 first and 200 to a repeat."""
    with exchange.running(tmp_path, server.url_for("worker"), script=SCRIPT, settings=SETTINGS) as found:
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


def ticks(beat: CelerySubprocess) -> int:
    """Count the ticks that a beat sent."""
    return beat.log_text().count(TICK)


def beat_of(deployment: Exchange, server: SecuredServer, name: str) -> CelerySubprocess:
    """Return a beat that logs in as such."""
    environ = {**deployment.environ(), "CHIO_REDIS_URL": server.url_for("beat")}
    return CelerySubprocess(deployment.directory / name, environ, "beat")


def test_the_second_beat_takes_over_and_nothing_is_escalated_twice(
    deployment: Exchange, server: SecuredServer, tmp_path: Path
) -> None:
    """Of two beats one ticks; it is killed, the other one ticks on, and each entry was escalated exactly once."""
    with beat_of(deployment, server, "b1") as first, beat_of(deployment, server, "b2") as second:
        deployment.worker().wait_until_ready()
        poll(lambda: ticks(first) + ticks(second) >= 3, exchange.LIMIT_S, "some ticks")
        leader, standby = (first, second) if ticks(first) else (second, first)
        deployment.send("before-1", "before-2")
        deployment.wait_until_idle()
        assert ticks(standby) == 0
        answer = chio_worker(tmp_path, server.url_for("operator"), "doctor", "--json")
        assert b'"findings": []' in answer.stdout

        leader.kill()
        deployment.send("after-1", "after-2")
        poll(lambda: ticks(standby) >= 3, exchange.LIMIT_S, "the other beat to tick")
        deployment.wait_until_idle()

    escalated = told(deployment.events("reconciliation.escalated"), "job_id")
    assert escalated == dict.fromkeys(
        [f"delivery:acme:{name}" for name in ("before-1", "before-2", "after-1", "after-2")], 1
    )
    assert set(deployment.tally().requests_per_key.values()) == {2}
    assert {entry for entry in server.refused() if entry[0] in ("beat", "operator")} == set()


def test_a_stopped_leader_hands_over_at_once(deployment: Exchange, server: SecuredServer) -> None:
    """A beat that is asked to end gives its lock back, and the other one ticks within a pause."""
    with beat_of(deployment, server, "b1") as first, beat_of(deployment, server, "b2") as second:
        poll(lambda: ticks(first) + ticks(second) >= 1, exchange.LIMIT_S, "a tick")
        leader, standby = (first, second) if ticks(first) else (second, first)

        leader.terminate()
        assert leader.wait(exchange.LIMIT_S) == 0
        with server.client_of("admin") as client:
            poll(lambda: client.exists("chio:redbeat::lock") == 1, exchange.LIMIT_S, "the lock to be taken again")
        poll(lambda: ticks(standby) >= 1, exchange.LIMIT_S, "the other beat to tick")


def test_a_standby_can_be_stopped(deployment: Exchange, server: SecuredServer) -> None:
    """A beat that waits for the lock ends in order when it is asked to, and the one that ticks goes on."""
    with beat_of(deployment, server, "b1") as leader:
        poll(lambda: ticks(leader) >= 1, exchange.LIMIT_S, "a tick")
        with beat_of(deployment, server, "b2") as standby:
            poll(lambda: "beat: Starting" in standby.log_text(), exchange.LIMIT_S, "the other one to wait")

            standby.terminate()
            assert standby.wait(exchange.LIMIT_S) == 0
        before = ticks(leader)
        poll(lambda: ticks(leader) > before, exchange.LIMIT_S, "another tick")
