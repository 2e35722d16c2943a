"""What retries that wait for an hour cost a worker's memory, here and in stock Celery."""

from collections.abc import Callable
from typing import Final

from benchmarks import arithmetic, contenders, effects, runs
from benchmarks.bench import Bench, Scenario
from benchmarks.contenders import Contender
from benchmarks.figures import Findings, Goal, Table
from benchmarks.fleet import Fleet
from storage.jobs import JobKind, JobState
from storage.keys import Key, Keys

_PROCESSES: Final = 2
_HOUR_MS: Final = "3600000"
_GOAL_COUNT: Final = 100_000
_LIMIT_MB: Final = 20
_BYTES_PER_MB: Final = 1_000_000
_STOCK_UNACKED: Final = "unacked"
#: Pool processes grow with their first failures and then no more; memory is looked at after so many.
_FIRST_JOBS: Final = 2_000


def _run(bench: Bench) -> Findings:
    own = contenders.own(
        hook="benchmarks.hooks:UnreachableSettlementHook",
        environment={
            "CHIO_SETTLEMENT_INITIAL_BACKOFF_MS": _HOUR_MS,
            "CHIO_SETTLEMENT_BACKOFF_CAP_MS": _HOUR_MS,
            "CHIO_LOG_LEVEL": "ERROR",
        },
    )
    stock = contenders.stock("Celery", "stock.park")
    own_mb = _growth_mb(bench, own, lambda: _parked(bench), bench.scale.parked_retries)
    stock_mb = _growth_mb(bench, stock, lambda: _unacked(bench), bench.scale.stock_parked_retries)
    own_goal = own_mb if bench.scale.parked_retries >= _GOAL_COUNT else None
    rows = [
        (own.name, bench.scale.parked_retries, own_mb, arithmetic.per_thousand(own_mb, bench.scale.parked_retries)),
        (
            stock.name,
            bench.scale.stock_parked_retries,
            stock_mb,
            arithmetic.per_thousand(stock_mb, bench.scale.stock_parked_retries),
        ),
    ]
    columns = ("queue", "waiting retries", "growth MB", "MB per 1,000")
    return Findings(
        tables=(Table.of("Memory of main and pool processes together", columns, rows),),
        goals=(Goal.below("worker memory for 100,000 parked retries", _LIMIT_MB, "MB", own_goal),),
    )


def _growth_mb(bench: Bench, contender: Contender, waiting: Callable[[], int], count: int) -> float:
    bench.renew()
    folder = bench.folder_for(contender.name)
    with Fleet(contender.launch(_PROCESSES, bench.address, folder)) as fleet:
        runs.enqueue(bench, contender, _FIRST_JOBS, folder)
        bench.wait_for(waiting, _FIRST_JOBS, "the first retries wait", fleet)
        before = fleet.resident_bytes()
        runs.enqueue(bench, contender, count, folder)
        bench.wait_for(waiting, _FIRST_JOBS + count, "retries wait", fleet)
        grown_mb = (fleet.resident_bytes() - before) / _BYTES_PER_MB
    bench.say(f"{contender.name}: {grown_mb:+.1f} MB for {count:,} retries")
    return grown_mb


def _parked(bench: Bench) -> int:
    counts = Keys().of(Key.COUNTS, JobKind.SETTLEMENT.value)
    return int(bench.client(effects.QUEUE_DATABASE).hget(counts, JobState.PARKED.value) or 0)


def _unacked(bench: Bench) -> int:
    return int(bench.client(effects.QUEUE_DATABASE).hlen(_STOCK_UNACKED))


SCENARIO: Final = Scenario(
    name="parked-retries",
    title="Retries that wait for an hour",
    question="How much a worker's memory grows while retries wait: in the ledger here, in the worker in stock Celery.",
    run=_run,
)
