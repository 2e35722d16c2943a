"""
A broker of its own is restarted, replaced and emptied: the ledger is elsewhere and brings every job back.

RabbitMQ with quorum queues, and a Redis behind three sentinels whose primary dies; last, a ledger behind them.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from reliability.clock import SystemClock
from tests.support import fleet as fleets
from tests.support import rabbit, sentinel
from tests.support.fleet import Fleet, is_ready
from tests.support.worker_process import WorkerProcess, poll
from worker import doctor
from worker.doctor import Severity
from worker.settings import Settings

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


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_promoted_replica_takes_over_the_ledger(tmp_path: Path, pool: str) -> None:
    """The primary of ledger and broker dies: workers and producers follow the promotion, and every job ends."""
    with (
        sentinel.running(tmp_path / "sentinel") as group,
        fleets.running(tmp_path, group.url) as fleet,
    ):
        worker = fleet.worker(pool=pool).wait_until_ready()
        receipts = [f"ledger-{number}" for number in range(40)]
        fleet.enqueue(*receipts[:20], tool="rail.fail-once")
        with group.primary.client() as client:
            # What no replica has is forgotten; that is the servers' to prevent.
            assert client.wait(1, 5_000) == 1

        group.fail_over()

        poll(lambda: is_ready(worker), fleets.LIMIT_S, "the worker to be ready again")
        fleet.enqueue(*receipts[20:])
        check(fleet, worker, receipts)


def test_doctor_asks_the_primary_that_sentinels_name(tmp_path: Path) -> None:
    """Behind Sentinel doctor asks the primary, and tells how a promotion would forget until the servers prevent it."""
    now_ms = SystemClock().now_ms
    with sentinel.running(tmp_path / "sentinel") as group, group.primary.client() as client:
        settings = Settings.load(redis_url=group.url, data_dir=tmp_path)
        before = doctor.examine(settings, now_ms)
        client.config_set("min-replicas-to-write", "1")
        after = doctor.examine(settings, now_ms)

    assert [(finding.check, finding.severity) for finding in before] == [("ledger: promotion", Severity.WARNING)]
    assert after == []
