"""Latency at a fixed rate: from the call that enqueues a job to its recorded result."""

from typing import Final

from benchmarks import arithmetic, contenders, runs
from benchmarks.bench import Bench, Scenario
from benchmarks.figures import Chart, Findings, Goal, Table

_RATE_PER_S: Final = 200
_PROCESSES: Final = 2
_PERCENTS: Final = (50, 95, 99)


def _run(bench: Bench) -> Findings:
    # The hook records the result where the other queues' jobs do; the ledger's own work comes on top.
    own = contenders.own(hook="benchmarks.hooks:RecordingSettlementHook")
    compared = (own, contenders.CELERY, *contenders.PEERS)
    found: dict[str, list[tuple[float, ...]]] = {contender.name: [] for contender in compared}
    for order in arithmetic.alternating(compared, bench.scale.rounds):
        for contender in order:
            latencies_ms = runs.latencies_ms(
                bench, contender, processes=_PROCESSES, rate_per_s=_RATE_PER_S, seconds=bench.scale.paced_s
            )
            found[contender.name].append(tuple(arithmetic.percentile(latencies_ms, percent) for percent in _PERCENTS))
            bench.say(f"{contender.name}: p50, p95, p99 = {found[contender.name][-1]} ms")
    medians = {name: [arithmetic.median(column) for column in zip(*each, strict=True)] for name, each in found.items()}
    table = Table.of(
        f"Milliseconds at {_RATE_PER_S} jobs/s, {_PROCESSES} worker processes",
        ("queue", *(f"p{percent}" for percent in _PERCENTS)),
        [(name, *each) for name, each in medians.items()],
    )
    slowest = arithmetic.ratio(medians[own.name][-1], medians[contenders.CELERY.name][-1])
    return Findings(
        tables=(table,),
        charts=(Chart.of("99th percentile", "ms", [(name, each[-1]) for name, each in medians.items()]),),
        goals=(Goal.at_most("p99 at 200 jobs/s", 1, "x stock Celery's", slowest),),
    )


SCENARIO: Final = Scenario(
    name="latency",
    title="Latency at a fixed rate",
    question="How long a job takes from being sent to its recorded result while jobs come at a steady rate.",
    run=_run,
)
