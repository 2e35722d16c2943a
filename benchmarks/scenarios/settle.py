"""Single settlements and enqueueing, beside every other queue: rates, processor time, commands."""

from typing import Final

from benchmarks import arithmetic, contenders, runs
from benchmarks.bench import Bench, Scenario
from benchmarks.figures import Chart, Findings, Goal, Table
from benchmarks.runs import Drained

_PROCESSES: Final = 2


def _run(bench: Bench) -> Findings:
    drained: dict[str, list[Drained]] = {contender.name: [] for contender in contenders.ALL}
    for order in arithmetic.alternating(contenders.ALL, bench.scale.rounds):
        for contender in order:
            run = runs.drain(bench, contender, processes=_PROCESSES, jobs=bench.scale.jobs)
            drained[contender.name].append(run)
    medians = {name: runs.median_of(each) for name, each in drained.items()}
    return Findings(
        tables=(_rates(drained, medians, bench.scale.jobs), _costs(medians)),
        charts=(
            Chart.of("Single jobs settled", "jobs/s", [(name, each.jobs_per_s) for name, each in medians.items()]),
            Chart.of("Jobs enqueued", "jobs/s", [(name, each.enqueued_per_s) for name, each in medians.items()]),
        ),
        goals=_goals(medians),
    )


def _rates(drained: dict[str, list[Drained]], medians: dict[str, Drained], jobs: int) -> Table:
    stock = medians[contenders.CELERY.name]
    rows = [
        (
            name,
            each.jobs_per_s,
            min(run.jobs_per_s for run in drained[name]),
            max(run.jobs_per_s for run in drained[name]),
            arithmetic.ratio(each.jobs_per_s, stock.jobs_per_s),
            each.enqueued_per_s,
            arithmetic.ratio(each.enqueued_per_s, stock.enqueued_per_s),
        )
        for name, each in medians.items()
    ]
    columns = ("queue", "settled/s", "least", "most", "x Celery", "enqueued/s", "x Celery")
    return Table.of(f"{jobs:,} single jobs, {_PROCESSES} worker processes", columns, rows)


def _costs(medians: dict[str, Drained]) -> Table:
    rows = [
        (
            name,
            each.worker_cpu_s_per_1000,
            each.server_cpu_s_per_1000,
            each.commands_per_job,
            each.resident_mb,
        )
        for name, each in medians.items()
    ]
    columns = ("queue", "worker CPU s per 1,000", "server CPU s per 1,000", "commands per job", "workers' memory MB")
    return Table.of("What a job costs; commands inside scripts are counted too", columns, rows)


def _goals(medians: dict[str, Drained]) -> tuple[Goal, ...]:
    own, stock = medians[contenders.CHIO.name].jobs_per_s, medians[contenders.CELERY.name].jobs_per_s
    without_result = medians[contenders.CELERY_DEDUP.name].jobs_per_s
    best = max(medians[peer.name].jobs_per_s for peer in contenders.PEERS)
    times = arithmetic.ratio
    return (
        Goal.at_least("single settle, beside a task without result", 0.8, "x stock Celery", times(own, without_result)),
        Goal.at_least("single settle, same effects", 2.5, "x stock Celery", times(own, stock)),
        Goal.at_least("single settle, same effects", 1, "x the best peer", times(own, best)),
    )


SCENARIO: Final = Scenario(
    name="settle",
    title="Single settlements",
    question="How many jobs a second one producer enqueues and two worker processes settle, one message each.",
    run=_run,
)
