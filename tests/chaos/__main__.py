"""
`python -m tests.chaos --seconds 60 --seed 1 --broker redis`: a run under fire, from the first process to the verdict.

Exit code 0: nothing lost, nothing stuck, nothing twice. 1: the verdict says what was. 2: the run itself went wrong.
"""

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

from reliability.errors import StorageUnavailableError
from storage.jobs import JobKind
from tests.chaos import plan as plans
from tests.chaos import score as scores
from tests.chaos import site as sites
from tests.chaos.faults import Armoury
from tests.chaos.plan import Plan
from tests.chaos.producer import Producer
from tests.chaos.score import Account, Score
from tests.chaos.site import Site
from tests.chaos.watch import Watch
from tests.chaos.work import Workshop, partners_in
from worker.cli import census
from worker.simulators import effect_log, partner_log

#: How long the ledger may stand still after the last fault before what is in flight counts as stuck, in seconds.
_STILL_LIMIT_S: Final = 45.0
_TEND_PERIOD_S: Final = 0.2
_SHOWN: Final = 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and judge."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--broker", choices=["redis", "rabbitmq"], default="redis")
    parser.add_argument("--jobs-per-s", type=int, default=30)
    parser.add_argument("--directory", type=Path, help="where logs and data stay; a temporary one is removed")
    given = parser.parse_args(arguments)
    plan = plans.draw(given.seed, given.seconds, given.broker)
    if given.directory:
        given.directory.mkdir(parents=True, exist_ok=True)
        return run(plan, given.directory, given.jobs_per_s)
    with tempfile.TemporaryDirectory(prefix="chio-chaos-") as directory:
        return run(plan, Path(directory), given.jobs_per_s)


def run(plan: Plan, directory: Path, jobs_per_s: int) -> int:
    """Run the plan in a directory and print the verdict; the last line is the score."""
    say(
        f"seed {plan.seed}, {plan.seconds:g} s on {plan.broker}, broker {'apart' if plan.is_apart else 'shared'},"
        f" {len(plan.faults)} faults"
    )
    with sites.running(plan, directory) as site:
        site.start_all()
        workshop = Workshop(plan.seed, plan.chance("work"), partners_in(directory / "partners.toml"))
        producer = Producer(site.operator, workshop, plan.chance("producer"), jobs_per_s)
        watch = Watch(site.operator.storage.jobs)
        armoury = Armoury(site, watch)
        under_fire(plan, site, producer, watch, armoury)
        drain(site, producer)
        site.stop_all()
        score = verdict(site, producer, watch, armoury)
    show(score)
    return 0 if score.is_clean else 1


def under_fire(plan: Plan, site: Site, producer: Producer, watch: Watch, armoury: Armoury) -> None:
    """Carry the plan out while work comes in."""
    stopping = threading.Event()
    helpers = [threading.Thread(target=each, args=(stopping,)) for each in (producer.run, watch.run)]
    for helper in helpers:
        helper.start()
    try:
        for each in strike_all(plan, site, armoury):
            each.result()
    finally:
        stopping.set()
        for helper in helpers:
            helper.join()


def strike_all(plan: Plan, site: Site, armoury: Armoury) -> list[Future[None]]:
    """Strike at each fault's time, and tend to what ended, until the run's time is over; return what was done."""
    began_at_s = time.monotonic()
    struck: list[Future[None]] = []

    def tend_until(at_s: float) -> None:
        while time.monotonic() - began_at_s < at_s:
            site.tend()
            time.sleep(_TEND_PERIOD_S)

    with ThreadPoolExecutor(max_workers=8) as hands:
        for planned in plan.faults:
            tend_until(planned.at_s)
            if armoury.is_busy(planned):
                armoury.skipped += 1
                continue
            say(str(planned))
            struck.append(hands.submit(armoury.strike, planned))
        tend_until(plan.seconds)
    return struck


def drain(site: Site, producer: Producer) -> None:
    """Let everything be well until nothing is in flight, or nothing has moved for too long."""
    site.orders.path.unlink(missing_ok=True)
    last, moved_at_s = -1, time.monotonic()
    while time.monotonic() - moved_at_s < _STILL_LIMIT_S:
        site.tend()
        time.sleep(_TEND_PERIOD_S)
        try:
            left = 0 if producer.finish() and not in_flight(site) else in_flight(site)
        except StorageUnavailableError:
            continue
        if left == 0:
            return
        if left != last:
            last, moved_at_s = left, time.monotonic()


def in_flight(site: Site) -> int:
    """Count what has not ended."""
    counts = [site.operator.storage.jobs.counts(kind) for kind in JobKind]
    return sum(sum(each.in_flight.values()) for each in counts)


def verdict(site: Site, producer: Producer, watch: Watch, armoury: Armoury) -> Score:
    """Judge the run."""
    logs = list(site.logs())
    tallies = (
        effect_log.tally(effect_log.read(site.rail.log)),
        partner_log.tally(partner_log.read(site.partner.log)),
    )
    score = scores.judge(
        Account(
            told=producer.told,
            offered=producer.offered,
            storage=site.operator.storage,
            tallies=tallies,
            attempts=scores.attempts_told(logs),
            poisoned=armoury.poisoned,
        )
    )
    woken = scores.woken(logs)
    score.recovered = len(watch.recovered.union(*woken.values()) & producer.told.keys())
    score.longest_recovery_s = max((seconds for seconds, _ in watch.recoveries), default=0.0)
    score.findings += [*site.findings, *producer.findings]
    if not census.take(site.operator.storage).is_balanced:
        score.findings.append("the ledger's numbers do not add up")
    score.facts |= {
        "jobs": len(producer.told) + len(producer.offered),
        "faults": {fault.value: count for fault, count in sorted(armoury.done.items())},
        "faults left out because their target was in trouble": armoury.skipped,
        "workers started": len(logs),
        "refused while a server was away": producer.refusals,
        "attempts cut off by a kill": watch.cut_off,
        "recoveries measured": len(watch.recoveries),
        "longest recoveries": [f"{seconds:.1f} s {job_id}" for seconds, job_id in sorted(watch.recoveries)[-3:]],
        "brought back by the pump": {why: len(jobs) for why, jobs in sorted(woken.items())},
    }
    return score


def show(score: Score) -> None:
    """Print facts, findings and the score."""
    for name, fact in score.facts.items():
        say(f"{name}: {json.dumps(fact)}")
    for name in ("lost", "duplicated", "stuck", "findings"):
        found: list[str] = getattr(score, name)
        for each in found[:_SHOWN]:
            say(f"{name}: {each}")
        if len(found) > _SHOWN:
            say(f"{name}: and {len(found) - _SHOWN} more")
    say(score.last_line())


def say(line: str) -> None:
    """Print one line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
