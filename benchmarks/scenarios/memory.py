"""What a ledger row and the mark that outlives it take in the server's memory."""

from collections.abc import Callable
from typing import Final

from benchmarks import ledger_jobs
from benchmarks.bench import Bench, Scenario
from benchmarks.figures import Findings, Goal, Table
from storage.jobs import Claim, Finish, FinishedAs, NewJob
from storage.protocols import JobStorage

_CHUNK: Final = 1_000
_MARK_LIMIT: Final = 120
_ROW_LIMIT: Final = 1_200
#: With fewer, the server's own tables, which grow by doubling, are what is measured.
_GOAL_ROWS: Final = 100_000
_FINISH: Final = Finish(finished_as=FinishedAs.SETTLED)


def _run(bench: Bench) -> Findings:
    ledger, count = ledger_jobs.ledger(bench), bench.scale.rows
    jobs = ledger_jobs.new_jobs(count)
    mark = _growth_bytes(bench, lambda: _finish(ledger, jobs)) / count
    both = _growth_bytes(bench, lambda: _admit(ledger, jobs)) / count
    rows = [("row with payload and index", both - mark), ("dedup mark", mark), ("both", both)]
    is_enough = count >= _GOAL_ROWS
    title = f"Bytes per job, {count:,} jobs with {ledger_jobs.PAYLOAD_BYTES} byte payloads and 17 byte ids"
    return Findings(
        tables=(Table.of(title, ("part", "bytes"), rows),),
        goals=(
            Goal.at_most("dedup mark", _MARK_LIMIT, "bytes", mark if is_enough else None),
            Goal.at_most(
                "ledger row with a 500 byte payload and its mark", _ROW_LIMIT, "bytes", both if is_enough else None
            ),
        ),
    )


def _growth_bytes(bench: Bench, work: Callable[[], None]) -> int:
    bench.client().flushdb()
    before = _used_bytes(bench)
    work()
    return _used_bytes(bench) - before


def _admit(ledger: JobStorage, jobs: list[NewJob]) -> None:
    for chunk in ledger_jobs.chunks(jobs, _CHUNK):
        ledger.admit_many(chunk)


def _finish(ledger: JobStorage, jobs: list[NewJob]) -> None:
    """Admit and finish few at a time, as a deployment does that keeps up: marks are what its server holds."""
    for chunk in ledger_jobs.chunks(jobs, _CHUNK):
        ledger.admit_many(chunk)
        _finish_chunk(ledger, [job.job_id for job in chunk])


def _finish_chunk(ledger: JobStorage, job_ids: list[str]) -> None:
    claimed = ledger.claim_many([(job_id, 0) for job_id in job_ids], ledger_jobs.lease())
    claims = [result for result in claimed if isinstance(result, Claim)]
    failed = [error for error in ledger.record_many([(claim, _FINISH) for claim in claims]) if error]
    if len(claims) != len(job_ids) or failed:
        raise AssertionError(f"expected {len(job_ids)} finished jobs, got: {len(claims) - len(failed)}")


def _used_bytes(bench: Bench) -> int:
    return int(bench.client().info("memory")["used_memory"])


SCENARIO: Final = Scenario(
    name="memory",
    title="Memory of the server",
    question="What a job takes in the ledger while it is in flight, and what remains of it for the dedup window.",
    run=_run,
)
