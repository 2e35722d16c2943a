"""How many exchanges with the server an admit, a claim and a record take, and how long, alone and in batches of 100."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks import arithmetic, ledger_jobs
from benchmarks.bench import Bench, Scenario
from benchmarks.figures import Findings, Goal, Table
from storage.jobs import Claim, Finish, FinishedAs
from storage.protocols import JobStorage

_OPERATIONS: Final = ("admit", "claim", "record")
_JOBS: Final = 1_000
_BATCH: Final = 100
_US_PER_S: Final = 1_000_000
_FINISH: Final = Finish(finished_as=FinishedAs.SETTLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cost:
    """Hold what one operation cost on average."""

    microseconds: float
    #: How often the server found something to read: once for each exchange.
    reads: float
    script_calls: float


def _run(bench: Bench) -> Findings:
    ledger = ledger_jobs.ledger(bench)
    rounds = [(_one_by_one(bench, ledger), _in_batches(bench, ledger)) for _ in range(bench.scale.rounds + 1)]
    # The first round loads the scripts.
    alone, batched = [each for each, _ in rounds[1:]], [each for _, each in rounds[1:]]
    rows = [
        (
            name,
            arithmetic.median([costs[name].reads for costs in alone]),
            arithmetic.median([costs[name].script_calls for costs in alone]),
            arithmetic.median([costs[name].microseconds for costs in alone]),
            arithmetic.median([costs[name].microseconds for costs in batched]),
        )
        for name in _OPERATIONS
    ]
    columns = ("operation", "exchanges", "scripts", "us alone", f"us in a batch of {_BATCH}")
    goals = [Goal.at_most(f"exchanges of one {row[0]}", 1, "exchanges", float(row[1])) for row in rows]
    return Findings(tables=(Table.of("One job", columns, rows),), goals=tuple(goals))


def _one_by_one(bench: Bench, ledger: JobStorage) -> dict[str, _Cost]:
    bench.client().flushdb()
    jobs = ledger_jobs.new_jobs(_JOBS)
    claims: list[Claim] = []
    lease = ledger_jobs.lease()
    return {
        "admit": _cost_of(bench, lambda: [ledger.admit(job) for job in jobs]),
        "claim": _cost_of(bench, lambda: claims.extend(_claimed([ledger.claim(job.job_id, 0, lease) for job in jobs]))),
        "record": _cost_of(bench, lambda: _record(ledger, claims)),
    }


def _in_batches(bench: Bench, ledger: JobStorage) -> dict[str, _Cost]:
    bench.client().flushdb()
    batches = list(ledger_jobs.chunks(ledger_jobs.new_jobs(_JOBS), _BATCH))
    claims: list[list[Claim]] = []
    lease = ledger_jobs.lease()

    def claim() -> None:
        wanted = ([(job.job_id, 0) for job in batch] for batch in batches)
        claims.extend(_claimed(ledger.claim_many(batch, lease)) for batch in wanted)

    return {
        "admit": _cost_of(bench, lambda: [ledger.admit_many(batch) for batch in batches]),
        "claim": _cost_of(bench, claim),
        "record": _cost_of(bench, lambda: [ledger.record_many([(one, _FINISH) for one in batch]) for batch in claims]),
    }


def _record(ledger: JobStorage, claims: Sequence[Claim]) -> None:
    for claim in claims:
        ledger.record(claim, _FINISH)


def _cost_of(bench: Bench, work: Callable[[], object]) -> _Cost:
    client = bench.client()
    before, began_s = client.info("all"), time.perf_counter()
    work()
    elapsed_s, after = time.perf_counter() - began_s, client.info("all")
    return _Cost(
        microseconds=elapsed_s / _JOBS * _US_PER_S,
        # The second look at the counters is an exchange too.
        reads=(after["total_reads_processed"] - before["total_reads_processed"] - 1) / _JOBS,
        script_calls=(_script_calls(after) - _script_calls(before)) / _JOBS,
    )


def _script_calls(info: dict[str, dict[str, int]]) -> int:
    return info.get("cmdstat_evalsha", {}).get("calls", 0)


def _claimed(results: Sequence[object]) -> list[Claim]:
    claims = [result for result in results if isinstance(result, Claim)]
    if len(claims) != len(results):
        raise AssertionError(f"expected {len(results)} claims, got: {len(claims)}")
    return claims


SCENARIO: Final = Scenario(
    name="round-trips",
    title="Exchanges with the ledger's server",
    question="What one admit, one claim and one record cost: exchanges counted by the server, time seen by the client.",
    run=_run,
)
