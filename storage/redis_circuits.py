"""Circuit states on Redis, one key per partner, shared by the whole fleet; closed without failures is no key."""

from collections.abc import Sequence

import redis

from reliability.circuit import CircuitState, Closed
from storage import circuit_codec
from storage.keys import DEFAULT_NAMESPACE, Key, Keys
from storage.scripts import Call, Script, Scripts

_NO_KEY = b""


class RedisCircuitStorage:
    """Keep one state per partner in one namespace of a Redis or Valkey server."""

    def __init__(self, client: redis.Redis, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        self._keys = Keys(namespace)
        self._scripts = Scripts(client, self._keys)

    def load(self, partner_id: str) -> CircuitState:
        """Return the partner's state."""
        return _state(partner_id, self._scripts.command("load", partner_id, *self._get(partner_id)))

    def load_many(self, partner_ids: Sequence[str]) -> list[CircuitState]:
        """Return the states of many partners, with one exchange."""
        if len(partner_ids) == 1:
            return [self.load(partner_ids[0])]
        replies = self._scripts.commands("load", ", ".join(partner_ids), [self._get(one) for one in partner_ids])
        return [_state(partner_id, stored) for partner_id, stored in zip(partner_ids, replies, strict=True)]

    def compare_and_set(self, partner_id: str, expected: CircuitState, state: CircuitState) -> bool:
        """Store the state if the kept one still equals `expected`."""
        arguments = (partner_id, _stored_form(expected), _stored_form(state))
        return bool(self._scripts.run(Call(Script.CIRCUIT_SET, partner_id, arguments)))

    def _get(self, partner_id: str) -> tuple[str, str]:
        return ("GET", self._keys.of(Key.CIRCUIT, partner_id))


def _state(partner_id: str, stored: bytes | None) -> CircuitState:
    return Closed() if stored is None else circuit_codec.decoded(partner_id, stored)


def _stored_form(state: CircuitState) -> bytes:
    return _NO_KEY if state == Closed() else circuit_codec.encoded(state)
