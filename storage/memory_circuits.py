"""Circuit states in one process's memory."""

import threading
from collections.abc import Sequence

from reliability.circuit import CircuitState, Closed


class InMemoryCircuitStorage:
    """Keep one state per partner; a partner never heard of is closed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._states: dict[str, CircuitState] = {}

    def load(self, partner_id: str) -> CircuitState:
        """Return the partner's state."""
        with self._lock:
            return self._states.get(partner_id, Closed())

    def load_many(self, partner_ids: Sequence[str]) -> list[CircuitState]:
        """Return the states of many partners."""
        return [self.load(partner_id) for partner_id in partner_ids]

    def compare_and_set(self, partner_id: str, expected: CircuitState, state: CircuitState) -> bool:
        """Store the state if the kept one still equals `expected`."""
        with self._lock:
            if self._states.get(partner_id, Closed()) != expected:
                return False
            self._states[partner_id] = state
            return True
