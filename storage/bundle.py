"""
The stores of one deployment, put together once: on one memory state, or in one namespace of one server.

`worker.bootstrap` makes the Redis bundle; tests and examples make the one in memory.
"""

from dataclasses import dataclass
from datetime import timedelta

import redis

from reliability.clock import Clock
from storage import protocols, traffic_protocols
from storage.keys import DEFAULT_NAMESPACE, Keys
from storage.memory_circuits import InMemoryCircuitStorage
from storage.memory_dead_letters import InMemoryDeadLetterStorage
from storage.memory_dedup import TtlDedupStorage
from storage.memory_gates import InMemoryGateStorage
from storage.memory_jobs import InMemoryJobStorage
from storage.memory_reconciliation import InMemoryReconciliationStorage
from storage.memory_state import MemoryState
from storage.options import LedgerOptions
from storage.quarantine import InMemoryQuarantineStorage, QuarantineBounds, QuarantineStorage
from storage.redis_circuits import RedisCircuitStorage
from storage.redis_dead_letters import RedisDeadLetterStorage
from storage.redis_dedup import RedisDedupStorage
from storage.redis_gates import RedisGateStorage
from storage.redis_jobs import RedisJobStorage
from storage.redis_quarantine import RedisQuarantineStorage
from storage.redis_reconciliation import RedisReconciliationStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """Hold every store; they share what a transition has to change in one step."""

    jobs: protocols.JobStorage
    dead_letters: protocols.DeadLetterStorage
    reconciliation: protocols.ReconciliationStorage
    dedup: protocols.DedupStorage
    circuits: traffic_protocols.CircuitStorage
    gates: traffic_protocols.GateStorage
    quarantine: QuarantineStorage


def memory_storage(
    clock: Clock, options: LedgerOptions | None = None, quarantine: QuarantineBounds | None = None
) -> Storage:
    """Make stores that live and end with this process."""
    state = MemoryState(clock, options)
    return Storage(
        jobs=InMemoryJobStorage(state),
        dead_letters=InMemoryDeadLetterStorage(state),
        reconciliation=InMemoryReconciliationStorage(state),
        dedup=TtlDedupStorage(timedelta(seconds=state.options.dedup_ttl_s), clock=clock),
        circuits=InMemoryCircuitStorage(),
        gates=InMemoryGateStorage(clock),
        quarantine=InMemoryQuarantineStorage(quarantine or QuarantineBounds(), clock.now_ms),
    )


def redis_storage(
    client: redis.Redis,
    namespace: str = DEFAULT_NAMESPACE,
    options: LedgerOptions | None = None,
    quarantine: QuarantineBounds | None = None,
) -> Storage:
    """Make stores in one namespace of a server; `redis_client.connect` makes the client."""
    chosen, keys = options or LedgerOptions(), Keys(namespace)
    return Storage(
        jobs=RedisJobStorage(client, namespace=namespace, options=chosen),
        dead_letters=RedisDeadLetterStorage(client, namespace=namespace),
        reconciliation=RedisReconciliationStorage(client, namespace=namespace, options=chosen),
        dedup=RedisDedupStorage(client, timedelta(seconds=chosen.dedup_ttl_s), namespace=namespace),
        circuits=RedisCircuitStorage(client, namespace=namespace),
        gates=RedisGateStorage(client, keys),
        quarantine=RedisQuarantineStorage(client, keys, quarantine or QuarantineBounds()),
    )
