"""Bound each partner's traffic within one process: for tests and for a worker without a server."""

import math
import threading
from collections import defaultdict

from reliability.clock import Clock
from storage.jobs import GateLimits

#: How long a delivery waits that found the partner's places taken, in ms.
FULL_WAIT_MS = 250


class InMemoryGateStorage:
    """Keep the gates in memory behind one lock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._inside: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self._next_at_ms: defaultdict[str, float] = defaultdict(float)
        self._next_turn_at_ms: defaultdict[str, int] = defaultdict(int)

    def enter(self, partner_id: str, token: str, limits: GateLimits) -> int:
        """Let the holder of the token in and return 0, or return how many ms to wait."""
        with self._lock:
            now_ms = self._clock.now_ms()
            inside = {held: until for held, until in self._inside[partner_id].items() if until > now_ms}
            self._inside[partner_id] = inside
            if limits.max_concurrent is not None and len(inside) >= limits.max_concurrent:
                return FULL_WAIT_MS
            wait_ms = self._take_rate(partner_id, limits, now_ms)
            if wait_ms == 0 and limits.max_concurrent is not None:
                inside[token] = now_ms + limits.entry_lease_ms
            return wait_ms

    def leave(self, partner_id: str, token: str) -> None:
        """End the entry."""
        with self._lock:
            self._inside[partner_id].pop(token, None)

    def turn_ms(self, partner_id: str, wait_ms: int, spacing_ms: int) -> int:
        """Return a delay of at least `wait_ms` that no other caller gets within `spacing_ms`."""
        with self._lock:
            now_ms = self._clock.now_ms()
            turn_at_ms = max(self._next_turn_at_ms[partner_id], now_ms + wait_ms)
            self._next_turn_at_ms[partner_id] = turn_at_ms + spacing_ms
            return turn_at_ms - now_ms

    def _take_rate(self, partner_id: str, limits: GateLimits, now_ms: int) -> int:
        """Take one from the rate (generic cell rate algorithm, a burst of one second), or return the wait in ms."""
        if limits.max_per_second is None:
            return 0
        interval_ms, slack_ms = limits.rate_interval_ms, limits.rate_slack_ms
        next_at_ms = max(self._next_at_ms[partner_id], float(now_ms))
        if next_at_ms - now_ms > slack_ms:
            return math.ceil(next_at_ms - now_ms - slack_ms)
        self._next_at_ms[partner_id] = next_at_ms + interval_ms
        return 0
