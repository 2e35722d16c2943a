"""Every scenario, in the order in which they run and stand on the page."""

from typing import Final

from benchmarks.bench import Scenario
from benchmarks.scenarios import (
    backlog,
    batches,
    decisions,
    escalation,
    isolation,
    latency,
    memory,
    parked_retries,
    retry_storm,
    round_trips,
    scaling,
    settle,
    webhooks,
)

SCENARIOS: Final[tuple[Scenario, ...]] = (
    settle.SCENARIO,
    batches.SCENARIO,
    latency.SCENARIO,
    retry_storm.SCENARIO,
    parked_retries.SCENARIO,
    webhooks.SCENARIO,
    isolation.SCENARIO,
    scaling.SCENARIO,
    backlog.SCENARIO,
    escalation.SCENARIO,
    memory.SCENARIO,
    round_trips.SCENARIO,
    decisions.SCENARIO,
)
NAMES: Final = tuple(scenario.name for scenario in SCENARIOS)
