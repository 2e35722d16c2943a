"""Whether a long queue slows its workers: the same number of jobs, settled while more and more others wait."""

import os
from typing import Final

from benchmarks import arithmetic, backlog_filler, contenders, runs
from benchmarks.bench import Bench, Scenario
from benchmarks.figures import Findings, Goal, Table
from benchmarks.fleet import Fleet
from benchmarks.runs import Drained

_PROCESSES: Final = 2
#: Filling a million is most of a round's time.
_MOST_ROUNDS: Final = 3
_GOAL_BACKLOG: Final = 1_000_000
#: A run of as many jobs as elsewhere would take a second.
_MORE_JOBS: Final = 3


def _run(bench: Bench) -> Findings:
    sizes = bench.scale.backlogs
    found: dict[int, list[Drained]] = {size: [] for size in sizes}
    for order in arithmetic.alternating(sizes, min(bench.scale.rounds, _MOST_ROUNDS)):
        for size in order:
            found[size].append(_drained(bench, size))
    medians = {size: runs.median_of(each) for size, each in found.items()}
    fewest, most = sizes[0], sizes[-1]
    kept = arithmetic.ratio(medians[most].jobs_per_s, medians[fewest].jobs_per_s)
    rows = [
        (
            f"{size:,}",
            each.jobs_per_s,
            arithmetic.ratio(each.jobs_per_s, medians[fewest].jobs_per_s),
            each.server_cpu_s_per_1000,
            each.resident_mb,
        )
        for size, each in medians.items()
    ]
    columns = ("waiting", "settled/s", f"x with {fewest:,}", "server CPU s per 1,000", "workers' memory MB")
    goal = Goal.at_least(
        "throughput with 1,000,000 waiting", 0.9, "x that with 1,000", kept if most >= _GOAL_BACKLOG else None
    )
    return Findings(tables=(Table.of("Jobs settled while others wait", columns, rows),), goals=(goal,))


def _drained(bench: Bench, size: int) -> Drained:
    """Measure the first jobs of a backlog of which `size` are left at the end."""
    contender, total = contenders.CHIO, bench.scale.warm_up_jobs + bench.scale.jobs * _MORE_JOBS
    folder = bench.folder_for(f"{contender.name} {size}")
    backlog_filler.fill(bench, contender, total + size, folder)
    # The disk would be busy for a minute with what a million jobs left in the append-only file.
    os.sync()
    with Fleet(contender.launch(_PROCESSES, bench.address, folder)) as fleet:
        drained = runs.measured(bench, contender, fleet, total, enqueued_per_s=0)
    bench.say(f"{size:,} waiting: {drained.jobs_per_s:,.0f} jobs/s")
    return drained


SCENARIO: Final = Scenario(
    name="backlog",
    title="A long queue",
    question="How many jobs a second are settled while up to a million others wait in the same queue.",
    run=_run,
)
