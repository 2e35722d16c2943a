"""Bound each partner's traffic within one process: for tests and for a worker without a server."""

import math
import threading
from collections import defaultdict
from collections.abc import Sequence

from reliability.clock import Clock
from storage.gates import FULL_WAIT_MS, STOPPED_WAIT_MS, GateLimits, GateWait, HeldBy
from storage.traffic_protocols import Entry


class InMemoryGateStorage:
    """Keep the gates in memory behind one lock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._inside: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self._next_at_ms: defaultdict[str, float] = defaultdict(float)
        self._next_turn_at_ms: defaultdict[str, float] = defaultdict(float)
        self._slow_until_ms: defaultdict[str, int] = defaultdict(int)
        self._stopped: dict[str, str] = {}

    def enter(self, partner_id: str, token: str, limits: GateLimits) -> GateWait | None:
        """Let the holder of the token in and return None, or return what holds it back."""
        with self._lock:
            now_ms = self._clock.now_ms()
            held = self._held_by(partner_id, limits.endpoint, now_ms) or self._bounded(partner_id, limits, now_ms)
            if held is None and limits.max_concurrent is not None:
                self._inside[partner_id][token] = now_ms + limits.entry_lease_ms
            return held

    def enter_many(self, entries: Sequence[Entry]) -> list[GateWait | None]:
        """Let each in, in order."""
        return [self.enter(*entry) for entry in entries]

    def leave(self, partner_id: str, *tokens: str) -> None:
        """End these entries."""
        with self._lock:
            for token in tokens:
                self._inside[partner_id].pop(token, None)

    def turn_ms(self, partner_id: str, wait_ms: int, spacing_ms: float) -> int:
        """Return a delay of at least `wait_ms` that no other caller gets within `spacing_ms`."""
        with self._lock:
            now_ms = self._clock.now_ms()
            turn_at_ms = max(self._next_turn_at_ms[partner_id], now_ms + wait_ms)
            self._next_turn_at_ms[partner_id] = turn_at_ms + spacing_ms
            return int(turn_at_ms - now_ms)

    def slow(self, partner_id: str, wait_ms: int) -> bool:
        """Hold everything back for `wait_ms` from now."""
        with self._lock:
            now_ms, until_ms = self._clock.now_ms(), self._slow_until_ms[partner_id]
            self._slow_until_ms[partner_id] = max(until_ms, now_ms + wait_ms)
            return until_ms <= now_ms

    def stop(self, partner_id: str, endpoint: str) -> bool:
        """Hold everything to this address back until `resume`."""
        with self._lock:
            before = self._stopped.get(partner_id)
            self._stopped[partner_id] = endpoint
            return before != endpoint

    def resume(self, partner_id: str) -> bool:
        """End a stop and a plea for patience."""
        with self._lock:
            was_slow = self._slow_until_ms.pop(partner_id, 0) > self._clock.now_ms()
            return self._stopped.pop(partner_id, None) is not None or was_slow

    def held_by(self, partner_id: str, endpoint: str) -> GateWait | None:
        """Return the stop or the plea that holds every delivery to this address back."""
        with self._lock:
            return self._held_by(partner_id, endpoint, self._clock.now_ms())

    def _held_by(self, partner_id: str, endpoint: str, now_ms: int) -> GateWait | None:
        if self._stopped.get(partner_id) == endpoint:
            return GateWait(why=HeldBy.STOPPED, wait_ms=STOPPED_WAIT_MS)
        patience_ms = self._slow_until_ms[partner_id] - now_ms
        return GateWait(why=HeldBy.SLOWED, wait_ms=patience_ms) if patience_ms > 0 else None

    def _bounded(self, partner_id: str, limits: GateLimits, now_ms: int) -> GateWait | None:
        inside = {held: until for held, until in self._inside[partner_id].items() if until > now_ms}
        self._inside[partner_id] = inside
        if limits.max_concurrent is not None and len(inside) >= limits.max_concurrent:
            return GateWait(why=HeldBy.FULL, wait_ms=FULL_WAIT_MS)
        wait_ms = self._take_rate(partner_id, limits, now_ms)
        return GateWait(why=HeldBy.RATE, wait_ms=wait_ms) if wait_ms else None

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
