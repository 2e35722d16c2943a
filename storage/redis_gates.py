"""Bound each partner's traffic over the whole fleet, in Redis."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import redis
from redis.exceptions import RedisError

from reliability.errors import StorageUnavailableError
from storage.gates import FULL_WAIT_MS, STOPPED_WAIT_MS, GateLimits, GateWait, HeldBy
from storage.keys import Key, Keys
from storage.scripts import Argument, Call, Script, Scripts
from storage.traffic_protocols import Entry

_HELD_BY = {b"stopped": HeldBy.STOPPED, b"slowed": HeldBy.SLOWED, b"full": HeldBy.FULL, b"rate": HeldBy.RATE}
_FIXED_WAIT_MS = {HeldBy.STOPPED: STOPPED_WAIT_MS, HeldBy.FULL: FULL_WAIT_MS}


class RedisGateStorage:
    """Keep the gates in Redis, on its clock."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._keys = keys
        self._scripts = Scripts(client, keys)

    def enter(self, partner_id: str, token: str, limits: GateLimits) -> GateWait | None:
        """Let the holder of the token in and return None, or return what holds it back."""
        return self.enter_many([(partner_id, token, limits)])[0]

    def enter_many(self, entries: Sequence[Entry]) -> list[GateWait | None]:
        """Let each in, in order, with one exchange."""
        calls = [
            _entering(partner_id, limits, *(token for _, token, _ in group))
            for (partner_id, limits), group in groupby(entries, key=lambda entry: (entry[0], entry[2]))
        ]
        replies = self._scripts.run_many(calls)
        for reply, call in zip(replies, calls, strict=True):
            if isinstance(reply, RedisError):
                raise StorageUnavailableError(call.script, call.subject) from reply
        return [_answer(answer) for reply in replies for answer in reply]

    def leave(self, partner_id: str, *tokens: str) -> None:
        """End these entries."""
        if tokens:
            inside = self._keys.of(Key.GATE_INSIDE, partner_id)
            self._scripts.command("gate_leave", partner_id, "ZREM", inside, *tokens)

    def turn_ms(self, partner_id: str, wait_ms: int, spacing_ms: float) -> int:
        """Return a delay of at least `wait_ms` that no other caller gets within `spacing_ms`."""
        return int(self._scripts.run(Call(Script.GATE_TURN, partner_id, (partner_id, wait_ms, f"{spacing_ms:.3f}"))))

    def slow(self, partner_id: str, wait_ms: int) -> bool:
        """Hold everything back for `wait_ms` from now."""
        return bool(self._scripts.run(Call(Script.GATE_SLOW, partner_id, (partner_id, wait_ms))))

    def stop(self, partner_id: str, endpoint: str) -> bool:
        """Hold everything to this address back until `resume`."""
        return bool(self._scripts.run(Call(Script.GATE_STOP, partner_id, (partner_id, endpoint))))

    def resume(self, partner_id: str) -> bool:
        """End a stop and a plea for patience."""
        kept = (self._keys.of(Key.GATE_STOP, partner_id), self._keys.of(Key.GATE_SLOW, partner_id))
        return bool(self._scripts.command("gate_resume", partner_id, "DEL", *kept))

    def held_by(self, partner_id: str, endpoint: str) -> GateWait | None:
        """Return the stop or the plea that holds every delivery to this address back."""
        commands: list[tuple[Argument, ...]] = [
            ("GET", self._keys.of(Key.GATE_STOP, partner_id)),
            ("PTTL", self._keys.of(Key.GATE_SLOW, partner_id)),
        ]
        stopped, patience_ms = self._scripts.commands("gate_held_by", partner_id, commands)
        if stopped == endpoint.encode():
            return GateWait(why=HeldBy.STOPPED, wait_ms=STOPPED_WAIT_MS)
        return GateWait(why=HeldBy.SLOWED, wait_ms=patience_ms) if patience_ms > 0 else None


def _entering(partner_id: str, limits: GateLimits, *tokens: str) -> Call:
    bounds = (limits.max_concurrent or 0, limits.entry_lease_ms)
    rate = (f"{limits.rate_interval_ms:.6f}", f"{limits.rate_slack_ms:.6f}")
    return Call(Script.GATE_ENTER, partner_id, (partner_id, limits.endpoint, *bounds, *rate, *tokens))


def _answer(reply: Any) -> GateWait | None:
    answer, wait_ms = reply
    if answer == b"in":
        return None
    why = _HELD_BY[answer]
    return GateWait(why=why, wait_ms=_FIXED_WAIT_MS.get(why, int(wait_ms)))
