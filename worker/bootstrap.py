"""
The composition root: the only place that puts settings, stores, hooks and flows together.

Nothing connects when it is made. What holds connections is made once per process at its first use, so a pool process
never shares a socket with the process it was forked from.
"""

import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Final, Generic, TypeVar

import dotenv
import redis

from reliability.clock import SystemClock
from storage import bundle, options, quarantine, redis_client
from storage.jobs import Lease
from tasks import batch_runtime, delivery_flow, delivery_messages, partner_gate, partners, runtime, settlement_flow
from tasks.hooks import loading, webhook
from worker import embedded, lease_keeper, orphans, outcome_spool, quarantine_spool
from worker.quarantine import StoredQuarantine
from worker.settings import Settings

_CLOCK: Final = SystemClock()

Part = TypeVar("Part")


class PerProcess(Generic[Part]):
    """Make a part at its first use in each process: a fork starts without it."""

    def __init__(self, make: Callable[[], Part]) -> None:
        self._make = make
        self._made: dict[int, Part] = {}
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._after_fork)

    def __call__(self) -> Part:
        """Return this process' part."""
        pid = os.getpid()
        if pid not in self._made:
            with self._lock:
                if pid not in self._made:
                    self._made[pid] = self._make()
        return self._made[pid]

    def _after_fork(self) -> None:
        # Another thread may have held the lock at the fork, and what was made belongs to the parent.
        self._lock, self._made = threading.Lock(), {}


def load_settings(**given: object) -> Settings:
    """
    Put `.env` into the environment, where the environment itself wins, and read the settings from it.

    Raises:
        ConfigurationError: naming every setting that does not hold.

    """
    dotenv.load_dotenv(Path(".env"))
    return Settings.load(**given)


def redis_url(settings: Settings) -> str:
    """Return where the ledger is: the server that is named, or the embedded one."""
    return settings.redis_url.get_secret_value() if settings.redis_url else embedded.address(settings)


def broker_url(settings: Settings) -> str:
    """Return where the broker is: the one that is named, or the ledger's server."""
    return settings.broker_url.get_secret_value() if settings.broker_url else redis_url(settings)


def build_storage(settings: Settings) -> bundle.Storage:
    """Make the stores with connections of their own; they connect at their first use."""
    client = ledger_client(settings, redis_url(settings))
    return bundle.redis_storage(client, settings.namespace, ledger_options(settings), quarantine_bounds(settings))


def ledger_client(settings: Settings, url: str) -> redis.Redis:
    """Make a client of a Redis or Valkey with the times and the authorities of the settings."""
    return redis_client.connect(
        url,
        timeout_s=settings.redis_timeout_s,
        connect_timeout_s=settings.connect_timeout_s,
        ca_file=settings.tls_ca_file,
        sentinel_master=settings.sentinel_master,
    )


def ledger_options(settings: Settings) -> options.LedgerOptions:
    """Return the numbers of the ledger."""
    return options.LedgerOptions(
        dedup_ttl_s=settings.dedup_window_s,
        lost_message_slack_ms=settings.lost_message_slack_ms,
        waitaof_ms=settings.admit_waitaof_ms,
        reconciliation_capacity=settings.reconciliation_capacity,
    )


def quarantine_bounds(settings: Settings) -> quarantine.QuarantineBounds:
    """Return how much the quarantine keeps."""
    return quarantine.QuarantineBounds(
        max_entries=settings.quarantine_max_entries, max_bytes=settings.quarantine_max_bytes
    )


def build_runtime(settings: Settings, storage: bundle.Storage) -> runtime.Runtime:
    """
    Make what the tasks of this process work with.

    Raises:
        ConfigurationError: if a hook or the partner file cannot be loaded.

    """
    keeper = lease_keeper.RenewingLeaseKeeper(
        storage.jobs,
        settings.lease_ms,
        settings.hard_time_limit_s,
        time.monotonic,
        # An attempt whose worker is gone has nobody to hold it to its time limits.
        may_renew=lambda: not orphans.is_orphan(),
    )
    owner = f"{socket.gethostname()}:{os.getpid()}"
    return runtime.Runtime(
        storage=storage,
        settlement=build_settlement(settings),
        delivery=build_delivery(settings, storage),
        batch=build_batch(settings),
        keeper=keeper,
        quarantine=StoredQuarantine(storage.quarantine),
        spool=outcome_spool_of(settings),
        new_lease=lambda: Lease(owner=owner, token=new_token(), lease_ms=settings.lease_ms),
        pause=time.sleep,
        max_hop_ms=settings.max_hop_s * 1000,
        max_payload_bytes=settings.max_payload_bytes,
        dead_letter_feed_max_length=settings.dead_letter_feed_max_length,
        max_pending_age=timedelta(seconds=settings.max_pending_age_s),
    )


def build_batch(settings: Settings) -> batch_runtime.BatchRuntime:
    """Make what batches need beside the rest."""
    limits = (settings.lease_ms, settings.soft_time_limit_s, settings.hard_time_limit_s)
    return batch_runtime.make(
        size=settings.batch_size,
        concurrency=settings.batch_concurrency,
        box_ms=batch_runtime.box_ms(*limits),
        monotonic_ms=lambda: time.monotonic_ns() // 1_000_000,
    )


def outcome_spool_of(settings: Settings) -> outcome_spool.FileSpool:
    """Make the spool that all workers with this data directory share."""
    return outcome_spool.FileSpool(settings.data_dir / "spool", settings.spool_max_entries, _CLOCK.now_ms)


def quarantine_spool_of(settings: Settings) -> quarantine_spool.QuarantineSpool:
    """Make the spool of messages for the quarantine that all workers with this data directory share."""
    folder = settings.data_dir / "spool" / "quarantine"
    return quarantine_spool.QuarantineSpool(folder, quarantine_bounds(settings), _CLOCK.now_ms)


def build_settlement(settings: Settings) -> settlement_flow.SettlementFlow:
    """
    Make the flow of settlements.

    Raises:
        ConfigurationError: if the hook cannot be loaded.

    """
    return settlement_flow.SettlementFlow(
        hook=loading.load_settlement_hook(settings.settlement_hook),
        policy=settings.settlement_policy(),
        clock=_CLOCK,
        jitter_ms=lambda: jitter_ms(settings.retry_jitter_ms),
    )


def build_delivery(settings: Settings, storage: bundle.Storage) -> runtime.DeliveryRuntime | None:
    """
    Make what deliveries need; None where no partners are configured.

    Raises:
        ConfigurationError: if the hook or the partner file cannot be loaded.

    """
    if settings.partners_file is None:
        return None
    hook = loading.load_delivery_hook(settings.delivery_hook)
    if isinstance(hook, webhook.WebhookDeliveryHook):
        directory = hook.directory
    else:
        directory = partners.shared(settings.partners_file)
    gate = partner_gate.PartnerGate(
        circuits=storage.circuits,
        gates=storage.gates,
        clock=_CLOCK,
        new_token=new_token,
        # No hook runs longer than the first, and the ledger gives a dead worker's attempt up after the second.
        min_lease_ms=settings.hard_time_limit_s * 1000 + settings.lease_ms,
    )
    return runtime.DeliveryRuntime(
        flow=delivery_flow.DeliveryFlow(hook=hook, partners=directory, gate=gate, clock=_CLOCK, jitter=jitter_ms),
        receipts=directory,
        admissible=lambda request: delivery_messages.admissible_delivery(
            request, directory, settings.max_payload_bytes, now_s=_CLOCK.now_ms() // 1000
        ),
    )


def new_token() -> str:
    """Return a token nobody can guess."""
    return secrets.token_hex(16)


def jitter_ms(max_jitter_ms: int) -> int:
    """Return a number from 0 to `max_jitter_ms`, at random."""
    return secrets.randbelow(max_jitter_ms + 1)
