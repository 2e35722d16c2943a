"""A run's plan comes from its seed alone."""

import pytest

from tests.chaos import plan as plans
from tests.chaos.plan import Fault


def test_one_seed_has_one_plan() -> None:
    """The same seed, length and broker give the same faults at the same times."""
    assert plans.draw(7, 600, "redis") == plans.draw(7, 600, "redis")
    assert plans.draw(7, 600, "redis").faults != plans.draw(8, 600, "redis").faults


@pytest.mark.parametrize("broker", ["redis", "rabbitmq"])
def test_a_long_run_has_every_fault(broker: str) -> None:
    """Twenty minutes see each kind of fault many times, in order, and quiet at both ends."""
    plan = next(plan for seed in range(20) if (plan := plans.draw(seed, 1_200, broker)).is_apart)

    times = [planned.at_s for planned in plan.faults]
    kinds = [planned.fault for planned in plan.faults]
    assert times == sorted(times)
    assert times[0] > 3
    assert times[-1] < 1_197
    assert all(kinds.count(fault) >= 3 for fault in Fault)


def test_a_shared_server_is_struck_as_the_ledger() -> None:
    """Where broker and ledger share a server, no fault is meant for the broker's server alone."""
    plan = next(plan for seed in range(20) if not (plan := plans.draw(seed, 1_200, "redis")).is_apart)

    assert {Fault.KILL_BROKER, Fault.RESTART_BROKER, Fault.FREEZE_BROKER}.isdisjoint(
        planned.fault for planned in plan.faults
    )
