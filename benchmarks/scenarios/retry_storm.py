"""A storm of retries: every job fails twice and succeeds at the third try."""

import time
from typing import Final

from benchmarks import arithmetic, contenders, effects, runs
from benchmarks.bench import Bench, Scenario
from benchmarks.contenders import Contender
from benchmarks.figures import Findings, Table
from benchmarks.fleet import Fleet

_PROCESSES: Final = 2
#: Stock Celery fails every job once, and once more, before the first succeeds, in seconds.
_FAILING_S: Final = 300.0
#: What both sides wait between two tries, in milliseconds; stock's task says the same.
_BACKOFF_MS: Final = "200"


def _run(bench: Bench) -> Findings:
    own = contenders.own(
        hook="benchmarks.hooks:FailingTwiceSettlementHook",
        environment={
            "CHIO_SETTLEMENT_INITIAL_BACKOFF_MS": _BACKOFF_MS,
            "CHIO_SETTLEMENT_BACKOFF_CAP_MS": _BACKOFF_MS,
            # Each failed attempt is a warning, and stock Celery logs its retries at INFO.
            "CHIO_LOG_LEVEL": "ERROR",
        },
    )
    compared = (own, contenders.stock("Celery", "stock.fail_twice"))
    rates: dict[str, list[float]] = {contender.name: [] for contender in compared}
    for order in arithmetic.alternating(compared, bench.scale.rounds):
        for contender in order:
            rates[contender.name].append(_attempts_per_s(bench, contender))
    medians = {name: arithmetic.median(each) for name, each in rates.items()}
    stock = medians[contenders.CELERY.name]
    rows = [(name, each, arithmetic.ratio(each, stock)) for name, each in medians.items()]
    title = f"{bench.scale.retried_jobs:,} jobs, {effects.FAILURES} failures each"
    return Findings(tables=(Table.of(title, ("queue", "attempts/s", "x Celery"), rows),))


def _attempts_per_s(bench: Bench, contender: Contender) -> float:
    bench.renew()
    folder = bench.folder_for(contender.name)
    runs.enqueue(bench, contender, bench.scale.retried_jobs, folder)
    tries = bench.client(effects.TRIES_DATABASE)
    with Fleet(contender.launch(_PROCESSES, bench.address, folder)) as fleet:
        bench.wait_for(lambda: int(tries.dbsize()), 1, "the first try", fleet)
        began_s = time.monotonic()
        bench.wait_for(
            lambda: contender.finished(bench.client),
            bench.scale.retried_jobs,
            "jobs succeed at last",
            fleet,
            standstill_s=_FAILING_S,
        )
        elapsed_s = time.monotonic() - began_s
    rate_per_s = arithmetic.rate_per_s(bench.scale.retried_jobs * (effects.FAILURES + 1), elapsed_s)
    bench.say(f"{contender.name}: {rate_per_s:,.0f} attempts/s")
    return rate_per_s


SCENARIO: Final = Scenario(
    name="retry-storm",
    title="A storm of retries",
    question="How many attempts a second are made when every job fails twice, with 200 ms between its tries.",
    run=_run,
)
