"""Settings that cannot work together are found, each in one sentence that names them and says what to change."""

import re

import pytest

from reliability.errors import ConfigurationError
from worker import settings_checks
from worker.settings import Settings

_NEVER: dict[str, object] = {
    "settlement_max_retries": 32,
    "settlement_initial_backoff_ms": 86_400_000,
    "settlement_backoff_cap_ms": 86_400_000,
}

#: What is set, and the settings the one sentence names.
CASES: dict[str, tuple[dict[str, object], tuple[str, ...]]] = {
    "soft limit past hard": (
        {"soft_time_limit_s": 45},
        ("CHIO_SOFT_TIME_LIMIT_S (45)", "CHIO_HARD_TIME_LIMIT_S (45)"),
    ),
    "authorities in no file": (
        {"tls_ca_file": "no/such/file"},
        ("CHIO_TLS_CA_FILE (no/such/file)", "No such file", "name a PEM file"),
    ),
    "authorities that are none": (
        {"tls_ca_file": __file__},
        ("CHIO_TLS_CA_FILE", "no certificate"),
    ),
    "short visibility timeout": (
        {"visibility_timeout_s": 130},
        ("CHIO_VISIBILITY_TIMEOUT_S (130)", "CHIO_MAX_HOP_S", "CHIO_RESTORE_INTERVAL_S (130 s)"),
    ),
    "long hop": ({"max_hop_s": 900}, ("CHIO_VISIBILITY_TIMEOUT_S (180)", "lower CHIO_MAX_HOP_S")),
    "slow store for the lease": (
        {"redis_timeout_s": 10},
        ("CHIO_REDIS_TIMEOUT_S (10)", "CHIO_LEASE_MS (15000)"),
    ),
    "pump slower than a lease": (
        {"pump_period_ms": 2_000, "mark_period_ms": 2_000, "lease_ms": 2_000, "redis_timeout_s": 1},
        ("CHIO_PUMP_PERIOD_MS (2000)", "CHIO_LEASE_MS (2000)"),
    ),
    "marks faster than the pump": (
        {"mark_period_ms": 100},
        ("CHIO_MARK_PERIOD_MS (100)", "CHIO_PUMP_PERIOD_MS (500)"),
    ),
    "no policy": (
        {"settlement_initial_backoff_ms": 0},
        ("CHIO_SETTLEMENT_MAX_RETRIES", "initial_backoff_ms must be nonzero"),
    ),
    "window shorter than the retries": (
        _NEVER,
        (
            "CHIO_DEDUP_WINDOW_S (172800)",
            "CHIO_SETTLEMENT_MAX_RETRIES (32)",
            "CHIO_SETTLEMENT_BACKOFF_CAP_MS (86400000)",
        ),
    ),
    "message smaller than a payload": (
        {"max_message_bytes": 100_000},
        ("CHIO_MAX_MESSAGE_BYTES (100000)", "CHIO_MAX_PAYLOAD_BYTES (65536)"),
    ),
    "message smaller than a batch": (
        {"batch_size": 1_000, "max_message_bytes": 200_000},
        ("CHIO_MAX_MESSAGE_BYTES (200000)", "CHIO_BATCH_SIZE (1000)"),
    ),
    "quarantine smaller than a message": (
        {"quarantine_max_bytes": 1_000},
        ("CHIO_QUARANTINE_MAX_BYTES (1000)", "CHIO_MAX_MESSAGE_BYTES (1048576)"),
    ),
    "rare escalation": (
        {"escalation_period_s": 7_200},
        ("CHIO_ESCALATION_PERIOD_S (7200)", "CHIO_MAX_PENDING_AGE_S (3600)"),
    ),
    "open Flower": ({"flower_address": "10.0.0.1"}, ("CHIO_FLOWER_ADDRESS (10.0.0.1)", "CHIO_FLOWER_BASIC_AUTH")),
    "half a password": ({"flower_basic_auth": "user:"}, ("CHIO_FLOWER_BASIC_AUTH", "user:password")),
    "a cluster as broker": (
        {"broker_url": "redis+cluster://h"},
        ("CHIO_BROKER_URL", "a Redis Cluster cannot be a broker"),
    ),
    "RabbitMQ as ledger": ({"redis_url": "amqp://h"}, ("CHIO_REDIS_URL", "redis:// or rediss:// or sentinel://")),
    "half a Sentinel as ledger": ({"redis_url": "sentinel://h;redis://h"}, ("CHIO_REDIS_URL", "sentinel://[user")),
    "half a Sentinel as broker": ({"broker_url": "sentinel://h;:26379"}, ("CHIO_BROKER_URL", "sentinel://[user")),
}


def test_the_defaults_work_together() -> None:
    """Nothing is wrong with the defaults."""
    assert settings_checks.problems(Settings.load(redis_url="redis://h")) == []


@pytest.mark.parametrize("name", CASES)
def test_a_combination_that_cannot_work_is_one_sentence(name: str) -> None:
    """Each combination gives exactly one sentence, with the settings' names and a way out."""
    given, named = CASES[name]

    problems = settings_checks.problems(Settings.load(**{"broker_url": "redis://h", **given}))

    assert len(problems) == 1
    assert all(part in problems[0] for part in named)
    assert problems[0].endswith(".")
    assert re.search(r"[:,] ", problems[0])


def test_every_problem_is_told_at_once() -> None:
    """The refusal holds all sentences, one a line."""
    settings = Settings.load(soft_time_limit_s=60, quarantine_max_bytes=1)

    with pytest.raises(ConfigurationError) as caught:
        settings_checks.refuse_unusable(settings)

    assert len(caught.value.problem.splitlines()) == 2


def test_rabbitmq_has_no_visibility_timeout() -> None:
    """On a broker that never hands a message out twice by time, the visibility timeout does not matter."""
    settings = Settings.load(broker_url="amqp://h", visibility_timeout_s=1)

    assert settings_checks.problems(settings) == []


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "localhost", "127.9.9.9"])
def test_flower_on_loopback_needs_no_password(address: str) -> None:
    """An address that only this host reaches may do without a password."""
    assert settings_checks.problems(Settings.load(flower_address=address)) == []
