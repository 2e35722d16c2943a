"""
An attempt is killed at every named point, and its job ends as it would have: settled once, or dead once.

`CHIO_TEST_FULL=1` kills at every point with every pool and broker; without it every point dies on a pool process, and
whole workers at the points that tell most.
"""

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pytest

from tasks.crash_points import CrashPoint as At
from tests.support import crew as crews
from tests.support.crew import Crew
from tests.support.fleet import LEASE_S

pytestmark = [pytest.mark.server, pytest.mark.process]

FULL: Final = os.environ.get("CHIO_TEST_FULL") == "1"
BROKERS: Final = ("redis", "rabbitmq")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Say where an attempt dies and what has to come of its job."""

    at: At
    tool: str = "search.query"
    #: How often the rail is asked in all; a second time with the same key and bytes.
    requests: int = 1
    #: How many attempts count as failed.
    retried: int = 0
    settled: bool = True

    def __str__(self) -> str:
        return f"{self.at}{'' if self.tool == 'search.query' else f'-{self.tool}'}"


CASES: Final = (
    Case(at=At.BEFORE_CLAIM),
    Case(at=At.AFTER_CLAIM, retried=1),
    Case(at=At.BEFORE_HOOK, retried=1),
    Case(at=At.AFTER_HOOK, requests=2, retried=1),
    Case(at=At.BEFORE_RECORD, requests=2, retried=1),
    Case(at=At.AFTER_RECORD),
    Case(at=At.BEFORE_ACKNOWLEDGE),
    Case(at=At.AFTER_RECORD, tool="rail.fail-once", requests=2, retried=1),
    Case(at=At.BEFORE_RETRY_PUBLISH, tool="rail.fail-once", requests=2, retried=1),
    Case(at=At.AFTER_RETRY_PUBLISH, tool="rail.fail-once", requests=2, retried=1),
    Case(at=At.AFTER_RECORD, tool="rail.422", settled=False),
    Case(at=At.BEFORE_DEAD_LETTER_PUBLISH, tool="rail.422", settled=False),
    Case(at=At.AFTER_DEAD_LETTER_PUBLISH, tool="rail.422", settled=False),
)
#: Whole workers die at these without being asked for the full table.
TELLING: Final = {
    ("threads", At.AFTER_CLAIM),
    ("threads", At.AFTER_HOOK),
    ("threads", At.AFTER_RETRY_PUBLISH),
    ("prefork", At.AFTER_HOOK),
}
#: Batches die at these without being asked for the full table.
IN_A_BATCH: Final = {At.AFTER_CLAIM, At.AFTER_HOOK, At.AFTER_RECORD, At.AFTER_RETRY_PUBLISH}
WORKER_CASES: Final = [
    (pool, case) for pool in ("prefork", "threads") for case in CASES if FULL or (pool, case.at) in TELLING
]


@pytest.fixture(scope="module")
def crew(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    """Run one deployment for all tests of a broker."""
    with crews.running(tmp_path_factory.mktemp(request.param), request.param) as crew:
        yield crew


@pytest.mark.parametrize("crew", BROKERS, indirect=True)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_pool_process_that_dies_costs_at_most_its_attempt(crew: Crew, case: Case) -> None:
    """A pool process is killed at any point of an attempt; its worker goes on and the job ends as it would have."""
    worker, receipt = crew.on("prefork"), f"process-{case}"

    retried = kill_and_wait(crew, receipt, case)

    assert worker.is_running
    assert retried == case.retried
    check(crew, receipt, case)


@pytest.mark.parametrize("crew", BROKERS if FULL else ["redis"], indirect=True)
@pytest.mark.parametrize("pool, case", WORKER_CASES, ids=[f"{pool}-{case}" for pool, case in WORKER_CASES])
def test_a_worker_that_dies_costs_at_most_its_attempts(crew: Crew, pool: str, case: Case) -> None:
    """A whole worker is killed at any point of an attempt; another one goes on and the job ends as it would have."""
    worker, receipt = crew.on(pool), f"{pool}-{case}"

    retried = kill_and_wait(crew, receipt, case, whole_worker_of=pool)

    assert not worker.is_running
    assert retried == case.retried
    check(crew, receipt, case)


@pytest.mark.parametrize("crew", BROKERS if FULL else ["redis"], indirect=True)
@pytest.mark.parametrize("case", [case for case in CASES if FULL or case.at in IN_A_BATCH], ids=str)
def test_a_batch_that_dies_costs_each_job_at_most_its_attempt(crew: Crew, case: Case) -> None:
    """A pool process is killed at any point of a batch of five: each of the jobs ends as it would have."""
    crew.on("prefork")
    receipts = [f"batch-{case}-{number}" for number in range(5)]
    before = crew.fleet.counts().retried
    crew.orders.give(case.at)

    crew.fleet.enqueue(*receipts, tool=case.tool, batch_size=5)

    crew.orders.wait_until_obeyed()
    crew.fleet.wait_until_idle()
    assert {crew.fleet.effects(receipt) for receipt in receipts} == {1 if case.settled else 0}
    assert max(crew.fleet.requests(receipt) for receipt in receipts) <= case.requests
    assert crew.fleet.counts().retried - before <= 5 * max(case.retried, case.requests - 1)
    assert crew.fleet.rail.tally().keys_with_differing_bodies == []
    assert crew.fleet.is_balanced()


def kill_and_wait(crew: Crew, receipt: str, case: Case, whole_worker_of: str = "") -> int:
    """Kill at the case's point, wait until the job has ended, and return how many attempts counted as failed."""
    fleet, orders = crew.fleet, crew.orders
    before = fleet.counts().retried
    orders.give(case.at, whole_worker=bool(whole_worker_of))
    fleet.enqueue(receipt, tool=case.tool)
    orders.wait_until_obeyed()
    died_at_s = time.monotonic()
    if whole_worker_of:
        crew.replace(whole_worker_of)
    fleet.wait_until_ended(receipt)
    sys.stdout.write(f"{receipt}: ended {time.monotonic() - died_at_s:.1f} s after the kill (lease {LEASE_S:g} s)\n")
    return fleet.counts().retried - before


def check(crew: Crew, receipt: str, case: Case) -> None:
    """Hold what the rail, the ledger and the dead letters say to the case."""
    fleet = crew.fleet
    assert fleet.requests(receipt) == case.requests
    assert fleet.effects(receipt) == (1 if case.settled else 0)
    assert fleet.rail.tally().keys_with_differing_bodies == []
    assert (fleet.storage.dead_letters.get(receipt) is None) == case.settled
    assert fleet.is_balanced()
