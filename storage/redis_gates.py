"""Bound each partner's traffic over the whole fleet, in Redis. A partner without bounds costs no round trip."""

import redis

from storage import redis_client
from storage.jobs import GateLimits
from storage.keys import Key, Keys
from storage.memory_gates import FULL_WAIT_MS
from storage.scripts import Call, Script, Scripts


class RedisGateStorage:
    """Keep the gates in Redis, on its clock."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._scripts = Scripts(client, keys)

    def enter(self, partner_id: str, token: str, limits: GateLimits) -> int:
        """Let the holder of the token in and return 0, or return how many ms to wait."""
        if limits.max_concurrent is None and limits.max_per_second is None:
            return 0
        arguments = (
            partner_id,
            token,
            limits.max_concurrent or 0,
            limits.entry_lease_ms,
            f"{limits.rate_interval_ms:.6f}",
            f"{limits.rate_slack_ms:.6f}",
            FULL_WAIT_MS,
        )
        return int(self._scripts.run(Call(Script.GATE_ENTER, partner_id, arguments)))

    def leave(self, partner_id: str, token: str) -> None:
        """End the entry."""
        with redis_client.translated("gate_leave", partner_id):
            self._client.zrem(self._keys.of(Key.GATE_INSIDE, partner_id), token)

    def turn_ms(self, partner_id: str, wait_ms: int, spacing_ms: int) -> int:
        """Return a delay of at least `wait_ms` that no other caller gets within `spacing_ms`."""
        return int(self._scripts.run(Call(Script.GATE_TURN, partner_id, (partner_id, wait_ms, spacing_ms))))
