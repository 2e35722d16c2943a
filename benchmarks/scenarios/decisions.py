"""How long the two pure decisions take, at the first attempt and far past the last."""

import timeit
from collections.abc import Callable
from typing import Final

from benchmarks import arithmetic
from benchmarks.bench import Bench, Scenario
from benchmarks.figures import Cell, Findings, Goal, Table
from reliability import outcomes, retry
from reliability.failures import SettlementFailureCode, SettlementFailureReason

_ATTEMPTS: Final = (0, 3, 31, 1_000, 2**32 - 1)
_LIMIT_US: Final = 5
_CALLS: Final = 20_000
_US_PER_S: Final = 1_000_000


def _run(bench: Bench) -> Findings:
    policy = retry.RetryPolicy(max_retries=retry.MAX_RETRIES_LIMIT)
    failed = outcomes.Retryable(SettlementFailureReason.from_detail(SettlementFailureCode.RPC, "timeout"))
    decisions: dict[str, Callable[[int], object]] = {
        "backoff_for": policy.backoff_for,
        "classify_attempt": lambda attempt: retry.classify_attempt(policy, attempt, failed),
    }
    taken = {
        (name, attempt): _microseconds(decide, attempt, bench.scale.rounds)
        for name, decide in decisions.items()
        for attempt in _ATTEMPTS
    }
    rows: list[list[Cell]] = [[f"{attempt:,}", *(taken[name, attempt] for name in decisions)] for attempt in _ATTEMPTS]
    goals = [
        Goal.below(f"{name}, slowest attempt", _LIMIT_US, "us", max(taken[name, attempt] for attempt in _ATTEMPTS))
        for name in decisions
    ]
    table = Table.of("Microseconds a call", ("attempt", *decisions), rows)
    return Findings(tables=(table,), goals=tuple(goals))


def _microseconds(decide: Callable[[int], object], attempt: int, rounds: int) -> float:
    timer = timeit.Timer(lambda: decide(attempt))
    timer.timeit(_CALLS)
    return arithmetic.median([timer.timeit(_CALLS) for _ in range(rounds)]) / _CALLS * _US_PER_S


SCENARIO: Final = Scenario(
    name="decisions",
    title="Pure decisions",
    question="How long `backoff_for` and `classify_attempt` take, whatever the attempt.",
    run=_run,
)
