"""
Batches: one message wakes hundreds of jobs. Runs as soon as the app registers the task `chio.settle.observe_many`.

The producer is the one of single jobs, told a batch size; other queues run their single jobs beside it.
"""

from typing import Final

from benchmarks import arithmetic, contenders, runs
from benchmarks.bench import Bench, Scenario
from benchmarks.figures import Chart, Findings, Goal, Table
from benchmarks.runs import Drained
from tasks import names
from worker import app

_PROCESSES: Final = 2
#: Batches are so much faster that a run needs more jobs to last.
_MORE_JOBS: Final = 20


def _missing() -> str | None:
    known = {task.name for task in app.TASKS}
    return None if names.OBSERVE_SETTLEMENTS in known else f"no task {names.OBSERVE_SETTLEMENTS} is registered yet"


def _run(bench: Bench) -> Findings:
    compared = (contenders.CHIO_BATCHES, contenders.CELERY, *contenders.PEERS)
    drained: dict[str, list[Drained]] = {contender.name: [] for contender in compared}
    for order in arithmetic.alternating(compared, bench.scale.rounds):
        for contender in order:
            more = _MORE_JOBS if contender is contenders.CHIO_BATCHES else 1
            run = runs.drain(bench, contender, processes=_PROCESSES, jobs=bench.scale.jobs * more)
            drained[contender.name].append(run)
    medians = {name: runs.median_of(each) for name, each in drained.items()}
    rows = [
        (name, each.jobs_per_s, each.enqueued_per_s, each.worker_cpu_s_per_1000, each.commands_per_job, each.grown_mb)
        for name, each in medians.items()
    ]
    columns = ("queue", "settled/s", "enqueued/s", "worker CPU s per 1,000", "commands per job", "memory growth MB")
    return Findings(
        tables=(Table.of("Jobs in batches", columns, rows),),
        charts=(
            Chart.of("Batches settled", "jobs/s", [(name, each.jobs_per_s) for name, each in medians.items()]),
            Chart.of("Batches enqueued", "jobs/s", [(name, each.enqueued_per_s) for name, each in medians.items()]),
        ),
        goals=_goals(medians),
    )


def _goals(medians: dict[str, Drained]) -> tuple[Goal, ...]:
    own, stock = medians[contenders.CHIO_BATCHES.name], medians[contenders.CELERY.name]
    best_rate = max(medians[peer.name].jobs_per_s for peer in contenders.PEERS)
    best_enqueue = max(medians[peer.name].enqueued_per_s for peer in contenders.PEERS)
    settled, enqueued = "batch settle, claim to recorded", "enqueue_many, validated and admitted"
    times = arithmetic.ratio
    return (
        Goal.at_least(settled, 20, "x stock Celery", times(own.jobs_per_s, stock.jobs_per_s)),
        Goal.at_least(settled, 6, "x the best peer", times(own.jobs_per_s, best_rate)),
        Goal.at_least(enqueued, 12, "x stock apply_async", times(own.enqueued_per_s, stock.enqueued_per_s)),
        Goal.at_least(enqueued, 2.5, "x the best peer", times(own.enqueued_per_s, best_enqueue)),
    )


SCENARIO: Final = Scenario(
    name="batches",
    title="Batches of settlements",
    question="How many jobs a second are settled when one message wakes many, beside other queues' single jobs.",
    run=_run,
    missing=_missing,
)
