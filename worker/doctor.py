"""
What is wrong with the servers: asked by every worker before it takes a job, and by `chio-worker doctor`.

`server_facts` asks a server, `findings` decides and asks nobody. Each finding is one sentence that says what to change;
an unsafe one stops the start.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final
from urllib.parse import urlsplit

import celery
import redis

from storage import redis_client, sentinel_address
from storage.keys import Key, Keys
from worker import bootstrap, settings_checks
from worker.settings import Settings

#: Oldest server whose commands the transport and the scripts use.
OLDEST_VERSION: Final = (6, 2)
#: A server fuller than this is reported: at its limit it refuses every write.
_FULL_SHARE: Final = 0.7
#: How long beats may take to answer, in seconds.
_PING_S: Final = 1.0


class Severity(StrEnum):
    """Say what a finding means for the start."""

    WARNING = "warning"
    UNSAFE = "unsafe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Hold the result of one check."""

    check: str
    severity: Severity
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """Hold what one server says of itself."""

    version: str
    is_cluster: bool
    is_replica: bool
    eviction: str
    append_only: bool
    used_bytes: int
    max_bytes: int
    #: How far the server's clock is ahead of this host's, in milliseconds; negative when it is behind.
    ahead_ms: int
    application_id: str | None
    #: Whether a replica may be promoted that lacks what this primary has said yes to.
    may_forget_in_promotion: bool = False


def examine(settings: Settings, now_ms: Callable[[], int], *, claim: bool = False) -> list[Finding]:
    """
    Check the settings and ask every server; `claim` writes this application's name into the namespace if it is free.

    Raises:
        StorageUnavailableError: if a server does not answer.

    """
    found = [_unsafe("settings", sentence) for sentence in settings_checks.problems(settings)]
    found += findings("ledger", settings, server_facts(bootstrap.redis_url(settings), settings, now_ms, claim=claim))
    broker = bootstrap.broker_url(settings)
    is_redis = urlsplit(broker).scheme in settings_checks.LEDGER_SCHEMES
    if is_redis and broker != bootstrap.redis_url(settings):
        found += findings("broker", settings, server_facts(broker, settings, now_ms, claim=False))
    return found


def server_facts(url: str, settings: Settings, now_ms: Callable[[], int], *, claim: bool) -> ServerFacts:
    """
    Ask one server about itself.

    Raises:
        StorageUnavailableError: if it does not answer.

    """
    client = bootstrap.ledger_client(settings, url)
    key = Keys(settings.namespace).of(Key.APPLICATION)
    with closing(client), redis_client.translated("doctor", "server"):
        info: Mapping[str, Any] = client.info("everything")
        is_cluster = bool(info.get("cluster_enabled", 0))
        if claim and not is_cluster:
            client.set(key, settings.application_id, nx=True)
        # A node of a cluster sends whoever asks for a key to another node.
        application = None if is_cluster else client.get(key)
        found = _facts(client, info, application, now_ms)
    # The server tells this number only where `min-replicas-to-write` is set.
    forgets = sentinel_address.is_sentinel(url) and "min_slaves_good_slaves" not in info
    return dataclasses.replace(found, may_forget_in_promotion=forgets)


def _facts(client: redis.Redis, info: Mapping[str, Any], application: object, now_ms: Callable[[], int]) -> ServerFacts:
    before_ms = now_ms()
    seconds, microseconds = client.time()
    host_ms = (before_ms + now_ms()) // 2
    return ServerFacts(
        version=str(info.get("redis_version", "0")),
        is_cluster=bool(info.get("cluster_enabled", 0)),
        is_replica=info.get("role") != "master",
        eviction=str(info.get("maxmemory_policy", "unknown")),
        append_only=bool(info.get("aof_enabled", 0)),
        used_bytes=int(info.get("used_memory", 0)),
        max_bytes=int(info.get("maxmemory", 0)),
        ahead_ms=seconds * 1000 + microseconds // 1000 - host_ms,
        application_id=application.decode(errors="replace") if isinstance(application, bytes) else None,
    )


def findings(server: str, settings: Settings, facts: ServerFacts) -> list[Finding]:
    """Decide what is wrong with one server; `server` is `ledger` or `broker`."""
    return [finding for check in _CHECKS for finding in check(server, settings, facts)]


def _kind_of_server(server: str, _settings: Settings, facts: ServerFacts) -> Iterator[Finding]:
    setting = "CHIO_REDIS_URL" if server == "ledger" else "CHIO_BROKER_URL"
    if _version(facts.version) < OLDEST_VERSION:
        sentence = f"The {server}'s server is version {facts.version}: use Redis 6.2 or Valkey 7.2 or newer."
        yield _unsafe(f"{server}: version", sentence)
    if facts.is_cluster:
        sentence = f"{setting} is a Redis Cluster, which neither ledger nor broker can use: name a single server."
        yield _unsafe(f"{server}: cluster", sentence)
    if facts.is_replica:
        yield _unsafe(f"{server}: role", f"{setting} is a replica, which takes no writes: name the primary.")


def _memory(server: str, _settings: Settings, facts: ServerFacts) -> Iterator[Finding]:
    if facts.eviction != "noeviction":
        sentence = (
            f"The {server}'s server forgets keys when it is full (maxmemory-policy {facts.eviction}):"
            " set `maxmemory-policy noeviction` in its configuration."
        )
        yield _unsafe(f"{server}: eviction", sentence)
    if facts.max_bytes and facts.used_bytes > facts.max_bytes * _FULL_SHARE:
        sentence = (
            f"The {server}'s server uses {facts.used_bytes * 100 // facts.max_bytes} % of its maxmemory and refuses"
            " every write at 100 %: raise maxmemory or work the queues off."
        )
        yield Finding(check=f"{server}: memory", severity=Severity.WARNING, sentence=sentence)


def _append_only(server: str, settings: Settings, facts: ServerFacts) -> Iterator[Finding]:
    if facts.append_only:
        return
    sentence = (
        f"The {server}'s server writes no append-only file, so a restart of it loses what it holds:"
        " set `appendonly yes` in its configuration, or CHIO_ALLOW_NO_APPEND_ONLY=true to accept the loss."
    )
    # A broker that forgets costs wake-up calls, which the pump sends again.
    is_allowed = settings.allow_no_append_only or server == "broker"
    severity = Severity.WARNING if is_allowed else Severity.UNSAFE
    yield Finding(check=f"{server}: append-only file", severity=severity, sentence=sentence)


def _promotion(server: str, _settings: Settings, facts: ServerFacts) -> Iterator[Finding]:
    # A broker that forgets costs wake-up calls, which the pump sends again.
    if server == "ledger" and facts.may_forget_in_promotion:
        sentence = (
            "The ledger's primary takes writes while no replica follows, and a promotion forgets them: set"
            " `min-replicas-to-write 1` and `min-replicas-max-lag 10` on every server of the group."
        )
        yield Finding(check="ledger: promotion", severity=Severity.WARNING, sentence=sentence)


def _clock(server: str, settings: Settings, facts: ServerFacts) -> Iterator[Finding]:
    if abs(facts.ahead_ms) > settings.max_clock_skew_ms:
        sentence = (
            f"This host's clock and the {server}'s differ by {abs(facts.ahead_ms)} ms, more than"
            f" CHIO_MAX_CLOCK_SKEW_MS ({settings.max_clock_skew_ms}): synchronise both with NTP."
        )
        yield _unsafe(f"{server}: clock", sentence)


def _namespace(server: str, settings: Settings, facts: ServerFacts) -> Iterator[Finding]:
    if facts.application_id not in (None, settings.application_id):
        sentence = (
            f"CHIO_NAMESPACE ({settings.namespace}) belongs to the application {facts.application_id!r}, and this is"
            f" {settings.application_id!r}: choose another namespace, or correct CHIO_APPLICATION_ID."
        )
        yield _unsafe(f"{server}: namespace", sentence)


_CHECKS: Final[tuple[Callable[[str, Settings, ServerFacts], Iterator[Finding]], ...]] = (
    _kind_of_server,
    _memory,
    _append_only,
    _promotion,
    _clock,
    _namespace,
)


def beat_findings(app: celery.Celery) -> list[Finding]:
    """Count the beats that answer a ping; one answers only while it ticks."""
    answers = app.control.inspect(timeout=_PING_S).ping() or {}
    beats = sum(node.startswith("celerybeat@") for node in answers)
    if beats == 1:
        return []
    sentence = f"{beats} beats tick, so every sweep runs {beats} times: stop all but one."
    if not beats:
        sentence = "No beat ticks, so nothing is escalated: start `celery -A worker.app beat`."
    return [Finding(check="beat", severity=Severity.WARNING, sentence=sentence)]


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2] if part.isdigit())


def _unsafe(check: str, sentence: str) -> Finding:
    return Finding(check=check, severity=Severity.UNSAFE, sentence=sentence)
