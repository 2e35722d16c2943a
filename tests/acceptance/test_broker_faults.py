"""
A broker of its own is restarted, replaced and emptied: the ledger is elsewhere and brings every job back.

RabbitMQ with quorum queues, and a Redis behind three sentinels whose primary dies.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import fleet as fleets
from tests.support import rabbit, sentinel
from tests.support.fleet import Fleet, is_ready
from tests.support.worker_process import WorkerProcess, poll

pytestmark = [pytest.mark.server, pytest.mark.process]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[rabbit.RabbitServer]:
    """Run one RabbitMQ for this file."""
    rabbit.require()
    with rabbit.RabbitServer(tmp_path_factory.mktemp("rabbitmq")) as node:
        yield node


def check(fleet: Fleet, worker: WorkerProcess, receipts: list[str]) -> None:
    """Wait until every job has ended, and see that the same worker ended each with one effect."""
    fleet.wait_until_idle()
    assert worker.is_running
    assert [fleet.effects(receipt) for receipt in receipts] == [1] * len(receipts)
    assert fleet.rail.tally().keys_with_differing_bodies == []
    assert fleet.is_balanced()


@pytest.mark.xdist_group("rabbitmq_faults")
@pytest.mark.parametrize("pool", ["prefork", "threads"])
@pytest.mark.parametrize("is_crash", [False, True], ids=["restart", "crash"])
def test_a_rabbitmq_that_restarts_loses_nothing(
    node: rabbit.RabbitServer, redis_url: str, tmp_path: Path, pool: str, is_crash: bool
) -> None:
    """RabbitMQ is restarted or killed under a worker: it says not ready, goes on by itself, and every job ends."""
    with fleets.running(tmp_path, redis_url, broker_url=node.url) as fleet:
        worker = fleet.worker(pool=pool).wait_until_ready()
        receipts = [f"{pool}-{number}" for number in range(40)]
        fleet.enqueue(*receipts[:20], tool="rail.fail-once")

        node.kill() if is_crash else node.stop()
        poll(lambda: not is_ready(worker), fleets.LIMIT_S, "the worker to say not ready")
        fleet.enqueue(*receipts[20:])
        node.start()

        poll(lambda: is_ready(worker), fleets.LIMIT_S, "the worker to be ready again")
        check(fleet, worker, receipts)


@pytest.mark.xdist_group("sentinel_faults")
def test_a_promoted_replica_takes_over(redis_url: str, tmp_path: Path) -> None:
    """The broker's primary dies and its replica is promoted: the worker follows, and every job ends."""
    with (
        sentinel.running(tmp_path / "sentinel") as group,
        fleets.running(tmp_path, redis_url, broker_url=group.url) as fleet,
    ):
        worker = fleet.worker().wait_until_ready()
        receipts = [f"sentinel-{number}" for number in range(40)]
        fleet.enqueue(*receipts[:20], tool="rail.fail-once")

        group.fail_over()

        poll(lambda: is_ready(worker), fleets.LIMIT_S, "the worker to be ready again")
        fleet.enqueue(*receipts[20:])
        check(fleet, worker, receipts)
