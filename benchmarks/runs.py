"""
Runs that many scenarios share: enqueue a backlog and drain it, or keep jobs coming at a rate.

The clock of a drain runs between two looks at the number of finished jobs, from after the warm-up until nearly all are
done: starting processes and their uneven ends are not measured, and both looks are exact.
"""

import json
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks import arithmetic, effects, producing
from benchmarks.bench import Bench
from benchmarks.contenders import Contender
from benchmarks.fleet import Fleet, FleetError

#: The share of a drain's jobs at which its clock stops.
_MEASURED_SHARE: Final = 0.98
_NS_PER_MS: Final = 1_000_000
_BYTES_PER_MB: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """Hold what draining one backlog showed."""

    enqueued_per_s: float
    jobs_per_s: float
    worker_cpu_s_per_1000: float
    server_cpu_s_per_1000: float
    commands_per_job: float
    resident_mb: float
    #: How much the workers' memory grew while the clock ran.
    grown_mb: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """Hold everything that is counted, at one instant."""

    at_s: float
    finished: int
    worker_cpu_s: float
    server_cpu_s: float
    commands: int
    resident_bytes: int


def enqueue(bench: Bench, contender: Contender, count: int, folder: Path, rate_per_s: float = 0) -> float:
    """
    Run the contender's producer to its end and return how many jobs a second it enqueued.

    Raises:
        FleetError: if it fails.

    """
    command = contender.producer_command(str(count), "--rate", str(rate_per_s))
    environment = contender.environment_in(bench.address, folder)
    ended = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise FleetError(f"the producer of {contender.name} failed:\n{ended.stderr[-3000:]}")
    told = json.loads(ended.stdout.splitlines()[-1])
    return arithmetic.rate_per_s(told["count"], told["elapsed_s"])


def drain(bench: Bench, contender: Contender, *, processes: int, jobs: int) -> Drained:
    """Enqueue the jobs with those of the warm-up, then start the workers and measure them."""
    bench.renew()
    folder = bench.folder_for(contender.name)
    # The producer sends one job more, to connect.
    total = bench.scale.warm_up_jobs + jobs
    enqueued_per_s = enqueue(bench, contender, total, folder)
    with Fleet(contender.launch(processes, bench.address, folder)) as fleet:
        drained = measured(bench, contender, fleet, total, enqueued_per_s)
    bench.say(
        f"{contender.name}: {drained.jobs_per_s:,.0f} jobs/s, enqueued {enqueued_per_s:,.0f}/s, "
        f"{drained.worker_cpu_s_per_1000:.2f} CPU s and {drained.commands_per_job:.1f} commands per job"
    )
    return drained


def measured(bench: Bench, contender: Contender, fleet: Fleet, total: int, enqueued_per_s: float) -> Drained:
    """Measure a fleet that is about to finish `total` jobs, the first of them as its warm-up."""
    _wait_for(bench, contender, fleet, bench.scale.warm_up_jobs)
    before = _look(bench, contender, fleet)
    _wait_for(bench, contender, fleet, round(total * _MEASURED_SHARE))
    after = _look(bench, contender, fleet)
    done = after.finished - before.finished
    return Drained(
        enqueued_per_s=enqueued_per_s,
        jobs_per_s=arithmetic.rate_per_s(done, after.at_s - before.at_s),
        worker_cpu_s_per_1000=arithmetic.per_thousand(after.worker_cpu_s - before.worker_cpu_s, done),
        server_cpu_s_per_1000=arithmetic.per_thousand(after.server_cpu_s - before.server_cpu_s, done),
        commands_per_job=(after.commands - before.commands) / done,
        resident_mb=after.resident_bytes / _BYTES_PER_MB,
        grown_mb=(after.resident_bytes - before.resident_bytes) / _BYTES_PER_MB,
    )


def latencies_ms(bench: Bench, contender: Contender, *, processes: int, rate_per_s: float, seconds: int) -> list[float]:
    """Let jobs come at a rate, and return how long each took from being sent to its recorded result."""
    bench.renew()
    folder = bench.folder_for(contender.name)
    with Fleet(contender.launch(processes, bench.address, folder)) as fleet:
        warm_up = round(rate_per_s)
        enqueue(bench, contender, warm_up, folder)
        _wait_for_results(bench, fleet, warm_up)
        bench.client(effects.DONE_DATABASE).flushdb()
        bench.client(effects.SEEN_DATABASE).flushdb()
        count = round(rate_per_s * seconds)
        enqueue(bench, contender, count, folder, rate_per_s)
        _wait_for_results(bench, fleet, count)
        return _recorded(bench)


def median_of(runs: Sequence[Drained]) -> Drained:
    """Return the median of each figure."""
    names = Drained.__slots__
    medians = {name: arithmetic.median([getattr(run, name) for run in runs]) for name in names}
    return Drained(**medians)


def _recorded(bench: Bench) -> list[float]:
    results = bench.client(effects.DONE_DATABASE)
    ids = list(results.scan_iter(count=1_000))
    return [
        (int(done_at_ns) - producing.sent_at_ns(job_id.decode())) / _NS_PER_MS
        for job_id, done_at_ns in zip(ids, results.mget(ids), strict=True)
    ]


def _wait_for(bench: Bench, contender: Contender, fleet: Fleet, count: int) -> None:
    bench.wait_for(lambda: contender.finished(bench.client), count, f"{contender.name} finishes jobs", fleet)


def _wait_for_results(bench: Bench, fleet: Fleet, count: int) -> None:
    results = bench.client(effects.DONE_DATABASE)
    bench.wait_for(lambda: int(results.dbsize()), count, "results are recorded", fleet)


def _look(bench: Bench, contender: Contender, fleet: Fleet) -> _Look:
    server = bench.client().info("all")
    calls = sum(found["calls"] for name, found in server.items() if name.startswith("cmdstat_"))
    finished, at_s = contender.finished(bench.client), time.monotonic()
    return _Look(
        at_s=at_s,
        finished=finished,
        worker_cpu_s=fleet.cpu_s(),
        server_cpu_s=server["used_cpu_user"] + server["used_cpu_sys"],
        commands=calls,
        resident_bytes=fleet.resident_bytes(),
    )
