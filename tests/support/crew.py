"""A deployment whose processes are armed to die: one worker at a time, replaced when it does."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support import fleet as fleets
from tests.support import rabbit, servers
from tests.support.crash_orders import Orders
from tests.support.fleet import Fleet
from tests.support.worker_process import WorkerProcess
from worker.simulators.rail_script import RailScript


@dataclass(kw_only=True)
class Crew:
    """Keep one armed worker going, on the pool that a test asks for."""

    fleet: Fleet
    orders: Orders
    _worker: WorkerProcess | None = None
    _pool: str = ""

    def on(self, pool: str) -> WorkerProcess:
        """Return a ready worker of this pool."""
        if self._worker is None or not self._worker.is_running or pool != self._pool:
            self.replace(pool)
        assert self._worker is not None
        return self._worker.wait_until_ready()

    def replace(self, pool: str) -> None:
        """Start another worker in the place of the one that died, without waiting for it."""
        if self._worker is not None and self._worker.is_running:
            self._worker.kill_session()
        self._worker, self._pool = self.fleet.worker(pool=pool, **self.orders.environ()), pool


@contextmanager
def running(directory: Path, broker: str, script: RailScript | None = None) -> Iterator[Crew]:
    """Run a deployment on `redis` or `rabbitmq`; the ledger is on a server of its own kind either way."""
    with ExitStack() as stack:
        redis = stack.enter_context(servers.RedisServer(directory / "redis"))
        broker_url = None
        if broker == "rabbitmq":
            rabbit.require()
            broker_url = stack.enter_context(rabbit.RabbitServer(directory / "rabbitmq")).url
        deployment = fleets.running(directory, redis.url, broker_url=broker_url, script=script)
        yield Crew(fleet=stack.enter_context(deployment), orders=Orders(path=directory / "orders"))
