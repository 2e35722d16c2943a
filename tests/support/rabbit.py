"""
A real RabbitMQ for tests: one node on private ports with a name server of its own; all it writes is in one folder.

Debian's `rabbitmq-server` is used as a program, never as the machine's service. `kill` then `start` is a crash and a
restart with the same data. Whatever a test forgets to end is ended when the interpreter exits.
"""

import atexit
import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

import pytest
from kombu.connection import Connection
from kombu.exceptions import OperationalError

from tests.support import ports, spawned

#: Debian keeps the node's own start script here; the one in the path switches to the service's user first.
_SERVER: Final = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
_EPMD: Final = Path("/usr/bin/epmd")
_START_LIMIT_S: Final = 60.0
_STOP_LIMIT_S: Final = 20.0


def require() -> None:
    """Skip the calling test where RabbitMQ is not installed; on CI it has to be."""
    if _SERVER.exists() and _EPMD.exists():
        return
    reason = "RabbitMQ is not installed; on Debian: apt-get install rabbitmq-server"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


class RabbitServer:
    """Run one node in `data_dir`; usable as a context manager."""

    def __init__(self, data_dir: Path, program: Path = _SERVER) -> None:
        self.data_dir = data_dir
        self._program = program
        #: What a client is to tell kombu of TLS; a node of another kind sets it.
        self.client_tls: bool | dict[str, object] = False
        self.port, self._epmd_port, self._distribution_port = 0, 0, 0
        self._epmd: subprocess.Popen[bytes] | None = None
        self._node: subprocess.Popen[bytes] | None = None
        atexit.register(self.kill)

    @property
    def url(self) -> str:
        """Return the address of the broker."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}//"

    @property
    def pid(self) -> int:
        """Return the process id of the node; fails when it was never started."""
        assert self._node is not None, "expected a started node, call start() first"
        return self._node.pid

    def start(self) -> None:
        """Start and wait until it answers; a second start keeps ports and data."""
        assert self._node is None, "expected a stopped node, call stop() or kill() first"
        self.data_dir.mkdir(parents=True, exist_ok=True)
        if self.port:
            self._start_on(self.port)
        else:
            ports.start_on_free_port(self._start_with_others)

    def stop(self) -> None:
        """End it as an operator would."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it with SIGKILL, as a crash would; does nothing when it is down."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Crash and start again with the same data."""
        self.kill()
        self.start()

    @contextlib.contextmanager
    def down(self) -> Iterator[None]:
        """Keep the node down inside the block."""
        self.kill()
        try:
            yield
        finally:
            self.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _start_with_others(self, port: int) -> None:
        """Start on this port, with ports for the name server and for other nodes; nothing is left if one is taken."""
        self._epmd_port, self._distribution_port = ports.free_port(), ports.free_port()
        try:
            self._start_on(port)
        except ports.PortTakenError:
            self.kill()
            raise

    def _start_on(self, port: int) -> None:
        self.port = port
        self._epmd = self._spawn(str(_EPMD), "-port", str(self._epmd_port), "-address", "127.0.0.1").process
        started = self._spawn(str(self._program))
        self._node = started.process
        started.wait_until(self._answers, _START_LIMIT_S)

    def _spawn(self, *command: str) -> spawned.Spawned:
        return spawned.spawn(command, self.data_dir / "server.log", self._environ())

    def _environ(self) -> dict[str, str]:
        loopback = "-kernel inet_dist_use_interface {127,0,0,1}"
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.data_dir),
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"chio-{self.port}@localhost",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_DIST_PORT": str(self._distribution_port),
            "RABBITMQ_MNESIA_BASE": str(self.data_dir / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self.data_dir / "log"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.data_dir / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(self.data_dir / "none"),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_PID_FILE": str(self.data_dir / "pid"),
            "ERL_CRASH_DUMP": str(self.data_dir / "erl_crash.dump"),
            # One scheduler without busy waiting: the machine has other things to do.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"{loopback} +S 1:1 +sbwt none",
        }

    def _answers(self) -> bool:
        with Connection(self.url, connect_timeout=1, ssl=self.client_tls) as connection:
            try:
                connection.connect()
            except (OperationalError, *connection.connection_errors):
                return False
        return True

    def _end(self, how: signal.Signals) -> None:
        for process in (self._node, self._epmd):
            if process is None:
                continue
            with contextlib.suppress(ProcessLookupError):
                # The node has helpers of its own, which stay in its session's group.
                os.killpg(process.pid, how)
            try:
                process.wait(_STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self._node = self._epmd = None
