"""How the rate grows with worker processes side by side, each with one pool process."""

import dataclasses
from typing import Final

from benchmarks import arithmetic, contenders, runs
from benchmarks.bench import Bench, Scenario
from benchmarks.contenders import Contender
from benchmarks.figures import Chart, Findings, Table

#: Every contender runs with every number of workers: half the jobs are enough.
_LESS: Final = 2


def _run(bench: Bench) -> Findings:
    compared = [_apart(contenders.CHIO), _apart(contenders.CELERY)]
    wanted = [(contender, count) for count in bench.scale.worker_counts for contender in compared]
    rates: dict[tuple[str, int], list[float]] = {(contender.name, count): [] for contender, count in wanted}
    for order in arithmetic.alternating(wanted, bench.scale.rounds):
        for contender, count in order:
            run = runs.drain(bench, contender, processes=count, jobs=bench.scale.jobs // _LESS)
            rates[contender.name, count].append(run.jobs_per_s)
    medians = {key: arithmetic.median(each) for key, each in rates.items()}
    names = [contender.name for contender in compared]
    first = bench.scale.worker_counts[0]
    rows = [
        (
            count,
            *(medians[name, count] for name in names),
            *(arithmetic.ratio(medians[name, count], medians[name, first]) for name in names),
        )
        for count in bench.scale.worker_counts
    ]
    columns = ("workers", *(f"{name} jobs/s" for name in names), *(f"{name} x one worker" for name in names))
    bars = [(f"{name}, {count}", medians[name, count]) for name in names for count in bench.scale.worker_counts]
    return Findings(
        tables=(Table.of("Jobs settled with more workers", columns, rows),),
        charts=(Chart.of("Jobs settled by so many workers", "jobs/s", bars),),
    )


def _apart(contender: Contender) -> Contender:
    """Return the contender with a whole worker for each process, instead of one worker with a pool."""

    def workers(count: int) -> list[contenders.Arguments]:
        return [(*contender.workers(1)[0], "--hostname", f"worker{number}@%h") for number in range(count)]

    return dataclasses.replace(contender, workers=workers)


SCENARIO: Final = Scenario(
    name="scaling",
    title="More workers",
    question="How many single jobs a second whole workers settle side by side, each with one pool process.",
    run=_run,
)
