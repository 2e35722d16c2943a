"""
Servers are restarted, killed, frozen and cut off under a worker that lives through all of it (row A24 of the faults).

One worker of each pool serves all tests of this file: it says not ready while a server is away, goes on by itself when
it is back, and at the end of each test every job has ended with one effect. The server stays away just as long as it
takes to be noticed; `CHIO_ACCEPTANCE_OUTAGE_S=60` keeps it away as long as row A24 asks for.
"""

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from reliability.errors import StorageUnavailableError
from tests.support import fleet as fleets
from tests.support.fleet import Fleet, is_ready
from tests.support.servers import RedisServer
from tests.support.worker_process import WorkerProcess, clean_environ, poll

pytestmark = [pytest.mark.server, pytest.mark.process]

OUTAGE_S: Final = float(os.environ.get("CHIO_ACCEPTANCE_OUTAGE_S", "0"))

_numbers = itertools.count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Hold a deployment with a server of its own and the one worker that lives through everything."""

    server: RedisServer
    fleet: Fleet
    worker: WorkerProcess

    @contextmanager
    def stream(self) -> Iterator[None]:
        """Have jobs under way around the block, and see that the same worker ends each with one effect."""
        self.bring_up()
        receipts = [f"fault-{next(_numbers)}" for _ in range(40)]
        self.fleet.enqueue(*receipts[:20], tool="rail.fail-once")
        yield
        poll(lambda: is_ready(self.worker), fleets.LIMIT_S, "the worker to be ready again")
        self.fleet.enqueue(*receipts[20:])
        self.fleet.wait_until_idle()
        assert self.worker.is_running
        assert [self.fleet.effects(receipt) for receipt in receipts] == [1] * 40
        assert self.fleet.rail.tally().keys_with_differing_bodies == []
        assert self.fleet.is_balanced()

    def bring_up(self) -> None:
        """Start the server if it is down, so that each test of this file can run alone."""
        if not self.server.is_running:
            self.server.start()
            poll(lambda: is_ready(self.worker), fleets.LIMIT_S, "the worker to be ready")

    def wait_until_not_ready(self) -> None:
        """Wait until the worker says that it is not ready."""
        poll(lambda: not is_ready(self.worker), fleets.LIMIT_S, "the worker to say not ready")

    def wait_out(self) -> None:
        """Keep the server away for as long as an outage is to last; the worker says not ready all the while."""
        ends_at_s = time.monotonic() + OUTAGE_S
        poll(lambda: is_ready(self.worker) or time.monotonic() > ends_at_s, OUTAGE_S + 1, "the outage to end")
        assert not is_ready(self.worker)
        assert self.worker.is_running


@pytest.fixture(scope="module", params=["prefork", "threads"])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Start a worker while its server is down; the first test brings the server up."""
    directory = tmp_path_factory.mktemp(request.param)
    # What a producer was told is on disk must be there after a SIGKILL.
    server = RedisServer(directory / "redis", appendfsync="always")
    server.start()
    server.kill()
    with fleets.running(directory, server.url) as fleet:
        yield Site(server=server, fleet=fleet, worker=fleet.worker(pool=request.param))
    server.kill()


def test_a_worker_without_its_server_waits_and_goes_on(site: Site) -> None:
    """A worker that starts before its server lives, says not ready, and takes jobs as soon as the server is there."""
    poll(lambda: site.worker.health() is not None, fleets.LIMIT_S, "the worker to tell of itself")
    assert not is_ready(site.worker)
    assert probe(site, "live") == 0
    assert probe(site, "ready") == 1
    site.wait_out()

    site.server.start()

    poll(lambda: is_ready(site.worker), fleets.LIMIT_S, "the worker to be ready")
    assert probe(site, "ready") == 0
    with site.stream():
        pass


def test_a_restart_of_the_server_loses_nothing(site: Site) -> None:
    """The server is restarted in order while jobs are under way."""
    with site.stream():
        site.server.stop()
        site.wait_until_not_ready()
        site.server.start()


def test_a_crash_of_the_server_loses_nothing(site: Site) -> None:
    """The server is killed with SIGKILL while jobs are under way, and comes back with its append-only file."""
    with site.stream():
        site.server.kill()
        site.wait_until_not_ready()
        with pytest.raises(StorageUnavailableError):
            site.fleet.enqueue("while-down")
        site.wait_out()
        site.server.start()
    assert site.fleet.storage.jobs.ending("while-down") is None


def test_an_outcome_that_could_not_be_recorded_is_recorded_later(site: Site) -> None:
    """The server dies while a hook runs and stays away past the lease: the effect counts and no attempt is repeated."""
    site.bring_up()
    receipt, retried = f"spooled-{next(_numbers)}", site.fleet.counts().retried
    site.fleet.enqueue(receipt, tool="rail.slow-1")
    poll(lambda: site.fleet.requests(receipt) == 1, fleets.LIMIT_S, "the hook to run")

    site.server.kill()
    lease_ends_at_s = time.monotonic() + fleets.LEASE_S
    poll(lambda: any((site.worker.data_dir / "spool").glob("*.json")), fleets.LIMIT_S, "the outcome to be spooled")
    poll(lambda: time.monotonic() > lease_ends_at_s, fleets.LIMIT_S, "the lease to end")
    site.server.start()

    site.fleet.wait_until_ended(receipt)
    assert site.fleet.requests(receipt) == 1
    assert site.fleet.counts().retried == retried
    poll(lambda: not any((site.worker.data_dir / "spool").iterdir()), fleets.LIMIT_S, "the spool to be empty")
    assert site.fleet.is_balanced()


def test_a_frozen_server_loses_nothing(site: Site) -> None:
    """The server stands still for longer than every time limit and then goes on as if nothing had been."""
    with site.stream():
        os.kill(site.server.pid, signal.SIGSTOP)
        try:
            site.wait_until_not_ready()
        finally:
            os.kill(site.server.pid, signal.SIGCONT)


def test_cut_connections_lose_nothing(site: Site) -> None:
    """Every connection is cut, again and again, while jobs are under way."""
    with site.stream(), site.server.client() as client:
        for _ in range(10):
            client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            client.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
            poll(client.ping, fleets.LIMIT_S, "the server to answer")


def test_deleted_keys_of_the_broker_lose_nothing(site: Site) -> None:
    """Everything the broker holds is deleted while jobs are under way: the ledger brings each of them back."""
    with site.stream(), site.server.client() as client:
        for key in client.scan_iter("chio:broker:*", count=1_000):
            client.delete(key)


def probe(site: Site, question: str) -> int:
    """Ask as an orchestrator does, and return the exit code."""
    return subprocess.run(
        [str(Path(sys.executable).with_name("chio-worker")), "health", question],
        env=clean_environ(site.worker.directory, site.fleet.environ()),
        cwd=site.worker.directory,
        check=False,
        capture_output=True,
        timeout=60,
    ).returncode
