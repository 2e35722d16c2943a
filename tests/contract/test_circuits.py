"""What `CircuitStorage` promises."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from reliability.circuit import CircuitState, Closed, HalfOpen, Open
from tests.support.backends import Backend

OPEN = Open(opened_at_ms=1_000, probe_at_ms=31_000)
STATES = [
    pytest.param(Closed(consecutive_failures=3), id="closed"),
    pytest.param(OPEN, id="open"),
    pytest.param(HalfOpen(opened_at_ms=1_000, probe_token="t", probe_deadline_at_ms=2_000), id="probing"),
    pytest.param(HalfOpen(opened_at_ms=1_000, probe_token=None, probe_deadline_at_ms=2_000), id="half open"),
]


def test_unknown_partner_is_closed(backend: Backend) -> None:
    """A partner never heard of has a closed circuit without failures."""
    assert backend.storage.circuits.load("acme") == Closed()


@pytest.mark.parametrize("state", STATES)
def test_state_comes_back_equal(backend: Backend, state: CircuitState) -> None:
    """What is stored is what is loaded, for this partner only."""
    assert backend.storage.circuits.compare_and_set("acme", Closed(), state) is True

    assert backend.storage.circuits.load("acme") == state
    assert backend.storage.circuits.load("other") == Closed()


def test_many_states_are_loaded_in_order(backend: Backend) -> None:
    """Each partner's state stands in its place; no partner, no state."""
    circuits = backend.storage.circuits
    circuits.compare_and_set("acme", Closed(), OPEN)

    assert circuits.load_many(["other", "acme"]) == [Closed(), OPEN]
    assert circuits.load_many(["acme"]) == [OPEN]
    assert circuits.load_many([]) == []


@pytest.mark.parametrize("state", STATES)
def test_closed_circuit_may_follow_any_state(backend: Backend, state: CircuitState) -> None:
    """A circuit that closes is as good as new."""
    backend.storage.circuits.compare_and_set("acme", Closed(), state)

    assert backend.storage.circuits.compare_and_set("acme", state, Closed()) is True
    assert backend.storage.circuits.load("acme") == Closed()
    assert backend.storage.circuits.compare_and_set("acme", Closed(), OPEN) is True


def test_other_expectation_changes_nothing(backend: Backend) -> None:
    """Who decided on an older state is told so."""
    backend.storage.circuits.compare_and_set("acme", Closed(), OPEN)

    assert backend.storage.circuits.compare_and_set("acme", Closed(), Closed(consecutive_failures=1)) is False
    assert backend.storage.circuits.load("acme") == OPEN


def test_one_of_many_probes_wins(backend: Backend) -> None:
    """Of 16 workers that begin the probe exactly one does."""
    backend.storage.circuits.compare_and_set("acme", Closed(), OPEN)

    def begin(number: int) -> bool:
        probe = HalfOpen(opened_at_ms=1_000, probe_token=f"t{number}", probe_deadline_at_ms=2_000)
        return backend.storage.circuits.compare_and_set("acme", OPEN, probe)

    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(begin, range(16)))

    assert answers.count(True) == 1
