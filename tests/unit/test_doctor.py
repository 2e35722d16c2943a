"""What is decided from what a server says of itself, and what a real one says."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reliability.clock import SystemClock
from reliability.errors import StorageUnavailableError
from tests.support import servers
from worker import doctor
from worker.doctor import ServerFacts, Severity
from worker.settings import Settings

SAFE = ServerFacts(
    version="7.2.4",
    is_cluster=False,
    is_replica=False,
    eviction="noeviction",
    append_only=True,
    used_bytes=10,
    max_bytes=0,
    ahead_ms=0,
    application_id=None,
)

#: What is changed, what it means for the start, and what the sentence tells to do.
CASES: dict[str, tuple[dict[str, Any], Severity, str]] = {
    "old": ({"version": "6.0.20"}, Severity.UNSAFE, "use Redis 6.2 or Valkey 7.2 or newer"),
    "cluster": ({"is_cluster": True}, Severity.UNSAFE, "name a single server"),
    "replica": ({"is_replica": True}, Severity.UNSAFE, "name the primary"),
    "eviction": ({"eviction": "allkeys-lru"}, Severity.UNSAFE, "set `maxmemory-policy noeviction`"),
    "no append-only file": ({"append_only": False}, Severity.UNSAFE, "set `appendonly yes`"),
    "forgetful promotion": ({"may_forget_in_promotion": True}, Severity.WARNING, "set `min-replicas-to-write 1`"),
    "nearly full": ({"used_bytes": 71, "max_bytes": 100}, Severity.WARNING, "raise maxmemory"),
    "clock ahead": ({"ahead_ms": 5_001}, Severity.UNSAFE, "synchronise both with NTP"),
    "clock behind": ({"ahead_ms": -5_001}, Severity.UNSAFE, "synchronise both with NTP"),
    "another application": ({"application_id": "other"}, Severity.UNSAFE, "choose another namespace"),
}


def test_a_safe_server_gives_no_finding() -> None:
    """Nothing is said of a server that is as it should be."""
    assert doctor.findings("ledger", Settings.load(), SAFE) == []


@pytest.mark.parametrize("name", CASES)
def test_each_fault_is_one_sentence_with_a_way_out(name: str) -> None:
    """Each fault gives one finding that says what to change."""
    changed, severity, way_out = CASES[name]

    (finding,) = doctor.findings("ledger", Settings.load(), dataclasses.replace(SAFE, **changed))

    assert finding.severity is severity
    assert way_out in finding.sentence
    assert finding.check.startswith("ledger: ")


@pytest.mark.parametrize("version", ["6.2.0", "7.0.15", "8.0", "10.1.2"])
def test_newer_servers_are_accepted(version: str) -> None:
    """Versions compare by number, not by text."""
    assert doctor.findings("ledger", Settings.load(), dataclasses.replace(SAFE, version=version)) == []


def test_a_missing_append_only_file_can_be_accepted() -> None:
    """Who says so may lose jobs in a restart, and is warned all the same."""
    facts = dataclasses.replace(SAFE, append_only=False)

    (finding,) = doctor.findings("ledger", Settings.load(allow_no_append_only=True), facts)

    assert finding.severity is Severity.WARNING


def test_a_broker_may_forget_in_a_restart() -> None:
    """A broker without an append-only file costs wake-up calls only, which the pump sends again."""
    (finding,) = doctor.findings("broker", Settings.load(), dataclasses.replace(SAFE, append_only=False))

    assert finding.severity is Severity.WARNING


@pytest.mark.parametrize(
    "nodes,sentence",
    [
        ({"celery@a": {}}, "No beat ticks"),
        ({"celerybeat@a": {}, "celerybeat@b": {}, "celery@a": {}}, "2 beats tick"),
        (None, "No beat ticks"),
    ],
)
def test_the_number_of_beats_is_told(nodes: dict[str, object] | None, sentence: str) -> None:
    """One beat is right; none and several are told."""
    app: Any = SimpleNamespace(
        control=SimpleNamespace(inspect=lambda **_: SimpleNamespace(ping=lambda: nodes)),
    )

    (finding,) = doctor.beat_findings(app)

    assert sentence in finding.sentence


def test_one_beat_is_right() -> None:
    """With one beat there is nothing to tell."""
    app: Any = SimpleNamespace(
        control=SimpleNamespace(inspect=lambda **_: SimpleNamespace(ping=lambda: {"celerybeat@a": {}})),
    )

    assert doctor.beat_findings(app) == []


@pytest.mark.server
def test_a_real_server_is_asked(redis_url: str) -> None:
    """A Valkey with the recommended configuration has no fault; its namespace belongs to who claimed it first."""
    settings = Settings.load(redis_url=redis_url)
    now_ms = SystemClock().now_ms

    before = doctor.examine(settings, now_ms)
    doctor.examine(settings, now_ms, claim=True)
    same = doctor.examine(settings, now_ms, claim=True)
    other = doctor.examine(Settings.load(redis_url=redis_url, application_id="other"), now_ms, claim=True)

    assert before == same == []
    assert [finding.check for finding in other] == ["ledger: namespace"]


@pytest.mark.server
def test_a_separate_broker_is_asked_too(redis_url: str, tmp_path: Path) -> None:
    """A Redis broker on another server is checked as well, under its own name."""
    with servers.RedisServer(tmp_path / "broker", options={"maxmemory-policy": "volatile-lru"}) as broker:
        settings = Settings.load(redis_url=redis_url, broker_url=broker.url)

        found = doctor.examine(settings, SystemClock().now_ms)

    assert [(finding.check, finding.severity) for finding in found] == [("broker: eviction", Severity.UNSAFE)]


def test_a_server_that_does_not_answer_is_an_error() -> None:
    """Nothing is assumed of a server that cannot be asked."""
    settings = Settings.load(redis_url="redis://127.0.0.1:1/0")

    with pytest.raises(StorageUnavailableError):
        doctor.examine(settings, SystemClock().now_ms)
