"""What every task needs, injected once per process. Built by `worker.bootstrap`; tests build it on memory back ends."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from reliability.delivery_request import DeliveryRequest
from storage.bundle import Storage
from storage.jobs import Claim, Lease, NewJob
from tasks.batch_runtime import BatchRuntime
from tasks.confirm_flow import ReceiptPolicy
from tasks.delivery_flow import DeliveryFlow
from tasks.recording import NoSpool, OutcomeSpool, Recorder
from tasks.settlement_flow import SettlementFlow


class LeaseKeeper(Protocol):
    """Renew leases while hooks run."""

    def keep(self, *claims: Claim) -> AbstractContextManager[None]:
        """Renew the claims' leases until the block ends or the hard limit of one attempt has passed."""
        ...


class Quarantine(Protocol):
    """Keep messages nobody can work on, for a person to look at."""

    def keep(self, raw: bytes, queue: str, reason: str) -> None:
        """Store the message's bytes with the queue it came from and a reason code."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRuntime:
    """Hold what deliveries need; absent where no partners are configured."""

    flow: DeliveryFlow
    receipts: ReceiptPolicy
    #: Turn a request into a job, or refuse it for its partner or its size.
    admissible: Callable[[DeliveryRequest], NewJob]


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """Hold the parts one process works with. Frozen: a change of settings is a new process."""

    storage: Storage
    settlement: SettlementFlow
    delivery: DeliveryRuntime | None = None
    batch: BatchRuntime
    keeper: LeaseKeeper
    quarantine: Quarantine
    #: Take the outcomes that the ledger does not.
    spool: OutcomeSpool = field(default_factory=NoSpool)
    #: Make the lease of the next claim: this process' owner id and a fresh token.
    new_lease: Callable[[], Lease]
    #: Wait between two tries at an unreachable store, in seconds.
    pause: Callable[[float], None]
    #: Delays up to this are Celery countdowns; longer ones are parked in the ledger.
    max_hop_ms: int
    max_payload_bytes: int
    dead_letter_feed_max_length: int
    #: A pending entry that waited this long is escalated.
    max_pending_age: timedelta

    @property
    def recorder(self) -> Recorder:
        """Return what writes outcomes into the ledger."""
        return Recorder(storage=self.storage, max_hop_ms=self.max_hop_ms, pause=self.pause, spool=self.spool)
