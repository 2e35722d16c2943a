"""
Both back ends behind one face, with a way to let time pass on each.

Memory moves its clock. Redis keeps the real one, so every instant it has stored is moved into the past instead; time
then goes on by itself, and a test allows for `slack_ms` between two readings.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import redis

from storage import bundle, redis_client
from storage.keys import Key, Keys
from storage.options import LedgerOptions
from tests.support.clock import ManualClock

#: The names of all back ends, for parametrised fixtures.
NAMES = ("memory", "redis")
#: The namespace the Redis back end of a test uses.
NAMESPACE = "contract:"

#: Where the instants of a packed row are: behind its digest.
_ROW_INSTANTS = struct.Struct(">32x4d")
_SCORED = (
    Key.OUTSTANDING,
    Key.LEASED,
    Key.PARKED,
    Key.AWAITING,
    Key.HELD,
    Key.DEAD_UNPUBLISHED,
    Key.GATE_INSIDE,
)
#: An instant is all that these hold.
_INSTANTS = (Key.GATE_RATE, Key.GATE_TURN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """Hold one back end's stores for one test."""

    name: str
    storage: bundle.Storage
    options: LedgerOptions
    #: Let this many milliseconds pass.
    travel: Callable[[int], None]
    #: How far the clock may run on by itself while a test looks.
    slack_ms: int

    def now_ms(self) -> int:
        """Return the store's time."""
        return self.storage.jobs.now_ms()

    def is_about(self, instant_ms: int, expected_ms: int) -> bool:
        """Tell whether the instant is the expected one, or later by what the clock ran on."""
        return 0 <= instant_ms - expected_ms <= self.slack_ms


def memory(options: LedgerOptions | None = None) -> Backend:
    """Return a memory back end on a clock of its own."""
    clock, chosen = ManualClock(), options or LedgerOptions()
    stores = bundle.memory_storage(clock, chosen)
    return Backend(name="memory", storage=stores, options=chosen, travel=clock.advance, slack_ms=0)


def on_redis(url: str, options: LedgerOptions | None = None, namespace: str = NAMESPACE) -> Backend:
    """Return a Redis back end in a namespace of the server."""
    client, chosen = redis_client.connect(url), options or LedgerOptions()
    stores = bundle.redis_storage(client, namespace, chosen)
    return Backend(
        name="redis",
        storage=stores,
        options=chosen,
        travel=lambda ms: shift(client, Keys(namespace), ms),
        slack_ms=10_000,
    )


def shift(client: redis.Redis, keys: Keys, ms: int) -> None:
    """Move every instant stored in the namespace into the past."""
    raw: Any = client
    for key in list(raw.scan_iter(match=f"{keys.namespace}*", count=1_000)):
        kind = keys.kind_of(key.decode())
        if kind is Key.JOB:
            raw.set(key, _earlier(raw.get(key), ms))
        elif kind is Key.WATERMARKS:
            for queue in (queue for queue, mark in raw.hgetall(key).items() if int(mark)):
                raw.hincrby(key, queue, -ms)
        elif kind in _SCORED:
            for member, score in raw.zrange(key, 0, -1, withscores=True):
                raw.zadd(key, {member: score - ms})
        elif kind in _INSTANTS:
            raw.set(key, f"{float(raw.get(key)) - ms:.3f}", keepttl=True)
        elif (left_ms := raw.pttl(key)) > 0:
            _ = raw.pexpire(key, left_ms - ms) if left_ms > ms else raw.delete(key)


def _earlier(packed: bytes, ms: int) -> bytes:
    instants = (instant and instant - ms for instant in _ROW_INSTANTS.unpack_from(packed))
    return packed[:32] + struct.pack(">4d", *instants) + packed[_ROW_INSTANTS.size :]
