"""
Faults of workers that are killed or told to end, each under the name of its row; see `test_fault_cases.py`.

| row | what plain Celery does | here |
|---|---|---|
| A2 | swallows a job whose worker was killed | one effect, by the next worker |
| A3 | loses messages with every kill | none lost in six kills |
| A19 | never ends, or loses what it runs | ends within its grace, all of it done once |
"""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psutil
import pytest

from storage.jobs import FinishedAs
from tests.support import fleet as fleets
from tests.support.fleet import Fleet
from tests.support.worker_process import poll

pytestmark = [pytest.mark.server, pytest.mark.process]

#: Hooks may take this long; the other times fit.
LONG_HOOKS: Final = {
    "CHIO_RAIL_DEADLINE_S": "14",
    "CHIO_SOFT_TIME_LIMIT_S": "16",
    "CHIO_HARD_TIME_LIMIT_S": "18",
    "CHIO_VISIBILITY_TIMEOUT_S": "30",
}


@pytest.fixture
def alone(redis_url: str, tmp_path: Path) -> Iterator[Fleet]:
    """Run a deployment for one test."""
    with fleets.running(tmp_path, redis_url) as fleet:
        yield fleet


def test_a2_a_job_whose_worker_was_killed_is_done_by_the_next(alone: Fleet) -> None:
    """A worker is killed with all its processes while its hook runs: the next one ends the job, with one effect."""
    first = alone.worker().wait_until_ready()
    alone.enqueue("a2", tool="rail.slow-2")
    poll(lambda: alone.requests("a2") == 1, fleets.LIMIT_S, "the hook to run")

    first.kill_session()
    alone.worker()

    alone.wait_until_ended("a2")
    assert alone.effects("a2") == 1
    assert alone.requests("a2") == 2
    assert alone.rail.tally().keys_with_differing_bodies == []
    assert alone.counts().duplicates == 0
    assert alone.is_balanced()


def test_a2_a_hook_whose_worker_was_killed_ends_and_counts(alone: Fleet) -> None:
    """The worker's main process alone is killed: its pool process records the running attempt, and none is repeated."""
    first = alone.worker().wait_until_ready()
    children = first.children()
    alone.enqueue("a2", tool="rail.slow-1")
    poll(lambda: alone.requests("a2") == 1, fleets.LIMIT_S, "the hook to run")

    first.kill_main()

    alone.wait_until_ended("a2")
    assert alone.requests("a2") == 1
    assert alone.counts().retried == 0
    poll(lambda: not any(map(psutil.pid_exists, children)), fleets.LIMIT_S, "the pool processes to go")


def test_a3_no_job_is_lost_in_six_kills(alone: Fleet) -> None:
    """A thousand jobs stream through six SIGKILLs of everything the worker is: each ends, each with one effect."""
    chance = random.Random(3)
    receipts = [f"a3-{number}" for number in range(1_000)]
    for number in range(6):
        worker = alone.worker().wait_until_ready()
        goal = ended(alone) + chance.randrange(20, 120)
        alone.enqueue(*receipts[number * 150 : (number + 1) * 150])
        wait_until_ended(alone, goal)
        worker.kill_session()
    alone.worker()
    alone.enqueue(*receipts[900:])

    alone.wait_until_idle()

    tally = alone.rail.tally()
    assert {receipt for receipt, effects in tally.effects_per_key.items() if effects == 1} == set(receipts)
    assert tally.keys_with_several_effects == []
    assert tally.keys_with_differing_bodies == []
    assert alone.is_balanced()


def test_a19_a_deploy_ends_in_time_and_loses_nothing(alone: Fleet) -> None:
    """SIGTERM with a hook longer than the grace and three jobs waiting: the worker ends before, the next does all."""
    receipts = [f"a19-{number}" for number in range(4)]
    first = alone.worker(**LONG_HOOKS, CHIO_CONCURRENCY="1", CHIO_SOFT_SHUTDOWN_TIMEOUT_S="1").wait_until_ready()
    alone.enqueue(receipts[0], tool="rail.slow-12")
    poll(lambda: alone.requests(receipts[0]) == 1, fleets.LIMIT_S, "the long hook to run")
    alone.enqueue(*receipts[1:])

    first.terminate()
    code = first.wait(fleets.LIMIT_S)
    was_cut_off = alone.storage.jobs.get(receipts[0]) is not None
    alone.worker(**LONG_HOOKS)

    alone.wait_until_idle()
    assert (code, was_cut_off) == (0, True)
    assert [alone.requests(each) for each in receipts] == [2, 1, 1, 1]
    assert [alone.effects(each) for each in receipts] == [1, 1, 1, 1]
    assert alone.counts().finished[FinishedAs.SETTLED] == 4
    assert alone.is_balanced()


def test_a19_a_rolling_restart_under_load_repeats_nothing(alone: Fleet) -> None:
    """Two workers are replaced one after the other while jobs stream: each job is asked for once, and none is lost."""
    receipts = [f"roll-{number}" for number in range(300)]
    workers = [alone.worker().wait_until_ready() for _ in range(2)]

    for turn in range(2):
        alone.enqueue(*receipts[turn * 150 : (turn + 1) * 150], tool="rail.slow-0.05")
        successor = alone.worker().wait_until_ready()
        workers[turn].terminate()
        assert workers[turn].wait(fleets.LIMIT_S) == 0
        workers.append(successor)

    alone.wait_until_idle()
    tally = alone.rail.tally()
    assert set(tally.requests_per_key) == set(receipts)
    assert set(tally.requests_per_key.values()) == {1}
    assert alone.counts().retried == 0
    assert alone.is_balanced()


def ended(fleet: Fleet) -> int:
    """Count the jobs that ended well."""
    return sum(fleet.counts().finished.values())


def wait_until_ended(fleet: Fleet, count: int) -> None:
    """Wait until so many jobs have ended well."""
    poll(lambda: ended(fleet) >= count, fleets.LIMIT_S, f"{count} jobs to end")
