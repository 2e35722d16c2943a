"""
What every back end promises about the traffic to partners: their circuits and their gates, shared by the whole fleet.

As in `storage.protocols`: operations are atomic, raise `StorageUnavailableError` when the store cannot answer, and the
contract suite runs each line on each back end.
"""

from collections.abc import Sequence
from typing import Protocol

from reliability.circuit import CircuitState
from storage.gates import GateLimits, GateWait

#: Who enters: the partner's id, the holder's token, the partner's limits.
Entry = tuple[str, str, GateLimits]


class CircuitStorage(Protocol):
    """Keep one circuit state per partner, shared by the whole fleet."""

    def load(self, partner_id: str) -> CircuitState:
        """Return the partner's state; one never stored is closed without failures."""
        ...

    def load_many(self, partner_ids: Sequence[str]) -> list[CircuitState]:
        """Return the states of many partners, in order, with one exchange."""
        ...

    def compare_and_set(self, partner_id: str, expected: CircuitState, state: CircuitState) -> bool:
        """Store the state if the kept one still equals `expected`; False, changing nothing, otherwise."""
        ...


class GateStorage(Protocol):
    """Bound how fast and how many at once deliveries go to one partner, over the whole fleet."""

    def enter(self, partner_id: str, token: str, limits: GateLimits) -> GateWait | None:
        """
        Let the holder of the token in and return None, or return what holds it back.

        A stop comes before a plea for patience, both before the bounds. Only a bound on how many are on their way at
        once keeps the entry; one that is not left is given up after `limits.entry_lease_ms`.
        """
        ...

    def enter_many(self, entries: Sequence[Entry]) -> list[GateWait | None]:
        """Let each in as `enter` does, in order, with one exchange. Not atomic as a whole."""
        ...

    def leave(self, partner_id: str, *tokens: str) -> None:
        """End these entries; leaving twice, or without having entered, changes nothing."""
        ...

    def turn_ms(self, partner_id: str, wait_ms: int, spacing_ms: float) -> int:
        """
        Return a delay of at least `wait_ms`, in ms, that no other caller gets within `spacing_ms`.

        Deliveries that wait for one partner come back one after the other instead of all at once.
        """
        ...

    def slow(self, partner_id: str, wait_ms: int) -> bool:
        """Hold everything back for `wait_ms` from now; never shortens. Tell whether nothing was held back before."""
        ...

    def stop(self, partner_id: str, endpoint: str) -> bool:
        """Hold everything to this address back until `resume`; tell whether it was not stopped before."""
        ...

    def resume(self, partner_id: str) -> bool:
        """End a stop and a plea for patience; tell whether there was one."""
        ...

    def held_by(self, partner_id: str, endpoint: str) -> GateWait | None:
        """Return the stop or the plea that holds every delivery to this address back; asking changes nothing."""
        ...
