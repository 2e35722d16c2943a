"""
Which settings cannot work together: pure, asked before any worker starts and by `chio-worker doctor`.

Each finding is one sentence that names the settings and says what to change. Checks that need a server are in `doctor`.
"""

import ssl
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from reliability import retry
from reliability.errors import ConfigurationError, PolicyRangeError
from storage import sentinel_address
from tasks import messages
from tasks.partners import PartnerDirectory
from tasks.runtime import Runtime
from worker.settings import Settings

#: Brokers that pop a message before they track it and hand it out again after the visibility timeout.
REDIS_SCHEMES: Final = ("redis", "rediss", sentinel_address.SCHEME)
AMQP_SCHEMES: Final = ("amqp", "amqps")
#: What may keep the ledger.
LEDGER_SCHEMES: Final = ("redis", "rediss", sentinel_address.SCHEME)
#: Room a message needs beside its payload: base64 adds a third, headers and envelope the rest.
_MESSAGE_PER_PAYLOAD: Final = 2
#: Room each job of a batch message needs: the longest id, its attempt and what stands between.
_MESSAGE_PER_JOB_BYTES: Final = messages.MAX_ID_BYTES + 20

Check = Callable[[Settings], Iterator[str]]


def problems(settings: Settings) -> list[str]:
    """Return a sentence for each pair of settings that cannot work together."""
    return [sentence for check in _CHECKS for sentence in check(settings)]


def refuse_unusable(settings: Settings) -> None:
    """
    Refuse settings that cannot work together.

    Raises:
        ConfigurationError: with every sentence.

    """
    if found := problems(settings):
        raise ConfigurationError("\n".join(found))


def runtime_problems(settings: Settings, made: Runtime) -> list[str]:
    """Return a sentence for each setting that does not fit the hooks and partners that were loaded."""
    hook_s = getattr(made.settlement.hook, "total_deadline_s", 0.0)
    found = list(_deadline("the settlement hook's deadline", hook_s, settings))
    directory = made.delivery.flow.partners if made.delivery else None
    return found + (partner_problems(settings, directory) if isinstance(directory, PartnerDirectory) else [])


def partner_problems(settings: Settings, directory: PartnerDirectory) -> list[str]:
    """Return a sentence for each setting that does not fit the partners, at the start and when they are read again."""
    found = list(_deadline("the longest deadline of a partner", directory.longest_deadline_s, settings))
    horizon_s = directory.longest_horizon.total_seconds()
    if settings.dedup_window_s < horizon_s:
        found.append(
            f"CHIO_DEDUP_WINDOW_S ({settings.dedup_window_s}) must be at least the {horizon_s:g} s that the slowest"
            " partner's retries take: raise it, or lower that partner's max_retries or backoff_cap_ms."
        )
    return found


def _deadline(what: str, deadline_s: float, settings: Settings) -> Iterator[str]:
    if deadline_s >= settings.soft_time_limit_s:
        yield (
            f"CHIO_SOFT_TIME_LIMIT_S ({settings.soft_time_limit_s}) must exceed {what} ({deadline_s:g} s), or attempts"
            " are interrupted that would have ended: raise the first or lower the deadline."
        )


def broker_scheme(settings: Settings) -> str:
    """Return the scheme of the broker's URL; the embedded server is `redis`."""
    url = settings.broker_url or settings.redis_url
    return urlsplit(url.get_secret_value()).scheme if url else "redis"


def uses_redis_broker(settings: Settings) -> bool:
    """Tell whether visibility timeout and restore interval mean anything."""
    return broker_scheme(settings) in REDIS_SCHEMES


def retry_horizon_s(settings: Settings, policy: retry.RetryPolicy) -> int:
    """Return how long one job may be retried at most, attempts and jitter included."""
    attempt_s = settings.hard_time_limit_s + _lease_s(settings) + settings.retry_jitter_ms / 1000
    return round(policy.horizon().total_seconds() + (policy.max_retries + 1) * attempt_s)


def _lease_s(settings: Settings) -> float:
    return settings.lease_ms / 1000


def _urls(settings: Settings) -> Iterator[str]:
    if settings.redis_url:
        scheme = urlsplit(settings.redis_url.get_secret_value()).scheme
        if scheme not in LEDGER_SCHEMES:
            yield f"CHIO_REDIS_URL must begin with {_either(LEDGER_SCHEMES)}, got {scheme!r}: name one Redis or Valkey."
        yield from _sentinels("CHIO_REDIS_URL", settings.redis_url.get_secret_value())
    scheme = broker_scheme(settings)
    if settings.broker_url:
        yield from _sentinels("CHIO_BROKER_URL", settings.broker_url.get_secret_value())
    if settings.broker_url and scheme not in (*REDIS_SCHEMES, *AMQP_SCHEMES):
        yield (
            f"CHIO_BROKER_URL must begin with {_either((*REDIS_SCHEMES, *AMQP_SCHEMES))}, got {scheme!r}:"
            " name a Redis, a Sentinel or a RabbitMQ; a Redis Cluster cannot be a broker."
        )


def _sentinels(setting: str, url: str) -> Iterator[str]:
    if not sentinel_address.is_sentinel(url):
        return
    try:
        sentinel_address.address_in(url)
    except ConfigurationError as error:
        yield f"{setting} cannot be read: {error.problem}."


def _authorities(settings: Settings) -> Iterator[str]:
    if settings.tls_ca_file is None:
        return
    try:
        ssl.create_default_context(cafile=settings.tls_ca_file)
    except OSError as error:
        problem = f"cannot be used: {error.strerror}; name a PEM file of certificates"
        yield f"CHIO_TLS_CA_FILE ({settings.tls_ca_file}) {problem}."


def _time_limits(settings: Settings) -> Iterator[str]:
    if settings.soft_time_limit_s >= settings.hard_time_limit_s:
        yield (
            f"CHIO_SOFT_TIME_LIMIT_S ({settings.soft_time_limit_s}) must be less than"
            f" CHIO_HARD_TIME_LIMIT_S ({settings.hard_time_limit_s}): lower the first or raise the second."
        )


def _visibility(settings: Settings) -> Iterator[str]:
    if not uses_redis_broker(settings):
        return
    needed_s = settings.max_hop_s + settings.hard_time_limit_s + _lease_s(settings) + settings.restore_interval_s
    if settings.visibility_timeout_s <= needed_s:
        yield (
            f"CHIO_VISIBILITY_TIMEOUT_S ({settings.visibility_timeout_s}) must exceed CHIO_MAX_HOP_S"
            f" + CHIO_HARD_TIME_LIMIT_S + CHIO_LEASE_MS + CHIO_RESTORE_INTERVAL_S ({needed_s:g} s), or a waiting"
            f" message is handed out twice: raise it above {needed_s:g} or lower CHIO_MAX_HOP_S."
        )


def _lease(settings: Settings) -> Iterator[str]:
    # A renewal is sent after a third of the lease and may take one timeout to fail before the next one.
    longest_ms = settings.lease_ms * 2 / 3
    if settings.redis_timeout_s * 1000 >= longest_ms:
        yield (
            f"CHIO_REDIS_TIMEOUT_S ({settings.redis_timeout_s:g}) must be less than two thirds of CHIO_LEASE_MS"
            f" ({settings.lease_ms}), or one slow renewal loses the lease: lower the first or raise the second."
        )
    if settings.pump_period_ms >= settings.lease_ms:
        yield (
            f"CHIO_PUMP_PERIOD_MS ({settings.pump_period_ms}) must be less than CHIO_LEASE_MS ({settings.lease_ms}),"
            " or an expired lease waits longer than it lasted: lower the first."
        )


def _pump(settings: Settings) -> Iterator[str]:
    if settings.mark_period_ms < settings.pump_period_ms:
        yield (
            f"CHIO_MARK_PERIOD_MS ({settings.mark_period_ms}) must be at least CHIO_PUMP_PERIOD_MS"
            f" ({settings.pump_period_ms}), because the pump sends the marks: raise the first or lower the second."
        )


def _policy(settings: Settings) -> Iterator[str]:
    try:
        policy = settings.settlement_policy()
    except PolicyRangeError as error:
        yield (
            f"CHIO_SETTLEMENT_MAX_RETRIES, _INITIAL_BACKOFF_MS, _BACKOFF_MULTIPLIER and _BACKOFF_CAP_MS make no policy:"
            f" {error.sentence}."
        )
        return
    horizon_s = retry_horizon_s(settings, policy)
    if settings.dedup_window_s < horizon_s:
        yield (
            f"CHIO_DEDUP_WINDOW_S ({settings.dedup_window_s}) must be at least the {horizon_s} s that"
            f" CHIO_SETTLEMENT_MAX_RETRIES ({policy.max_retries}) and CHIO_SETTLEMENT_BACKOFF_CAP_MS"
            f" ({policy.backoff_cap_ms}) allow, or a repeat of a slow job counts as new:"
            " raise the first or lower the others."
        )


def _sizes(settings: Settings) -> Iterator[str]:
    if settings.max_message_bytes < settings.max_payload_bytes * _MESSAGE_PER_PAYLOAD:
        yield (
            f"CHIO_MAX_MESSAGE_BYTES ({settings.max_message_bytes}) must be at least twice CHIO_MAX_PAYLOAD_BYTES"
            f" ({settings.max_payload_bytes}), or a payload that is allowed does not fit a message: raise the first."
        )
    batch_bytes = settings.batch_size * _MESSAGE_PER_JOB_BYTES
    if settings.max_message_bytes < batch_bytes:
        yield (
            f"CHIO_MAX_MESSAGE_BYTES ({settings.max_message_bytes}) must be at least the {batch_bytes} that a message"
            f" of CHIO_BATCH_SIZE ({settings.batch_size}) jobs may have: raise the first or lower the second."
        )
    if settings.quarantine_max_bytes < settings.max_message_bytes:
        yield (
            f"CHIO_QUARANTINE_MAX_BYTES ({settings.quarantine_max_bytes}) must be at least CHIO_MAX_MESSAGE_BYTES"
            f" ({settings.max_message_bytes}), or a message is dropped as soon as it is quarantined: raise the first."
        )


def _escalation(settings: Settings) -> Iterator[str]:
    if settings.escalation_period_s > settings.max_pending_age_s:
        yield (
            f"CHIO_ESCALATION_PERIOD_S ({settings.escalation_period_s}) must not exceed CHIO_MAX_PENDING_AGE_S"
            f" ({settings.max_pending_age_s}), or entries grow twice as old before anybody looks: lower the first."
        )


def _flower(settings: Settings) -> Iterator[str]:
    if settings.flower_basic_auth is None and not _is_loopback(settings.flower_address):
        yield (
            f"CHIO_FLOWER_ADDRESS ({settings.flower_address}) is reachable from outside and CHIO_FLOWER_BASIC_AUTH is"
            " not set: set user:password, or listen on 127.0.0.1."
        )
    auth = settings.flower_basic_auth
    if auth is not None and not all(auth.get_secret_value().partition(":")[::2]):
        yield "CHIO_FLOWER_BASIC_AUTH must have the form user:password: write both parts."


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def _either(schemes: tuple[str, ...]) -> str:
    return " or ".join(f"{scheme}://" for scheme in schemes)


_CHECKS: Final[tuple[Check, ...]] = (
    _urls,
    _authorities,
    _time_limits,
    _visibility,
    _lease,
    _pump,
    _policy,
    _sizes,
    _escalation,
    _flower,
)
