"""
`docker-compose.yml` as an operator runs it, on the images of `tests/support/engine.py`, as a project of its own.

Docker Compose v2 is used where it is a plug-in of `docker`, and Debian's 1.29 otherwise.
"""

import functools
import ipaddress
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support import engine
from tests.support.worker_process import ROOT, poll

_COMMAND_LIMIT_S: Final = 180
HEALTHY_LIMIT_S: Final = 240.0
#: State of a listening socket in the kernel's table.
_LISTENING: Final = "0A"


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """Hold one running project; `name` keeps it apart from others on the engine."""

    name: str
    program: Sequence[str]
    files: Sequence[Path]
    profiles: Sequence[str]
    environ: Mapping[str, str]

    def run(self, *arguments: str, stdin: bytes = b"", code: int = 0) -> bytes:
        """Run one command of compose, expect this exit code and return its output."""
        files = [word for path in self.files for word in ("--file", str(path))]
        profiles = [word for profile in self.profiles for word in ("--profile", profile)]
        ran = subprocess.run(
            [*self.program, "--project-name", self.name, *files, *profiles, *arguments],
            cwd=ROOT,
            env={**os.environ, **self.environ},
            input=stdin,
            capture_output=True,
            check=False,
            timeout=_COMMAND_LIMIT_S,
        )
        assert ran.returncode == code, ran.stderr.decode(errors="replace")[-3000:]
        return ran.stdout

    def command(self, *arguments: str, stdin: bytes = b"", code: int = 0) -> dict[str, Any]:
        """Run `chio-worker` inside, expect this exit code and return its document."""
        answer = self.run("run", "--rm", "-T", "cli", *arguments, "--json", stdin=stdin, code=code)
        found: dict[str, Any] = json.loads(answer)
        return found

    def on_image(self, image: str) -> "Project":
        """Return the same project with another image of the application."""
        return replace(self, environ={**self.environ, "CHIO_IMAGE": image})

    def containers(self, service: str) -> list[str]:
        """Return the ids of a service's containers."""
        return self.run("ps", "-q", service).decode().split()

    def health(self, service: str) -> set[str]:
        """Return what the engine says of the service's containers: starting, healthy, unhealthy."""
        return {inspected(container)["State"]["Health"]["Status"] for container in self.containers(service)}

    def wait_until_healthy(self, *services: str) -> None:
        """Wait until every container of these services is healthy."""
        for service in services:
            is_healthy = functools.partial(self._is_healthy, service)
            try:
                poll(is_healthy, HEALTHY_LIMIT_S, f"{service} to be healthy")
            except AssertionError as error:
                written = self.run("logs", "--no-color", service).decode(errors="replace")
                raise AssertionError(f"{error}; it wrote at the end:\n{written[-3000:]}") from None

    def _is_healthy(self, service: str) -> bool:
        return self.health(service) == {"healthy"}


@contextmanager
def up(
    directory: Path, name: str, *, profiles: Sequence[str], settings: Mapping[str, str], environ: Mapping[str, str]
) -> Iterator[Project]:
    """Start the whole stack from nothing, with settings of the test in its containers; nothing of it stays."""
    secrets = directory / "secrets"
    subprocess.run([ROOT / "deploy/make_secrets.sh", secrets], check=True)
    override = directory / "override.yml"
    services = {service: {"environment": dict(settings)} for service in ("worker", "beat", "cli")}
    override.write_text(json.dumps({"services": services}))
    images = {"CHIO_IMAGE": engine.WORKER, "CHIO_REDIS_IMAGE": engine.REDIS, "CHIO_RABBITMQ_IMAGE": engine.RABBITMQ}
    project = Project(
        name=name,
        program=_program(),
        files=(ROOT / "docker-compose.yml", override),
        profiles=profiles,
        environ={**images, "CHIO_SECRETS": str(secrets), "CHIO_FLOWER_HOST_PORT": "0", **environ},
    )
    try:
        project.run("up", "--detach", "--no-build")
        yield project
    finally:
        project.run("down", "--volumes", "--timeout", "5")


def inspected(container: str) -> dict[str, Any]:
    """Return what the engine knows of a container."""
    ran = subprocess.run(["docker", "inspect", container], check=True, capture_output=True)
    (found,) = json.loads(ran.stdout)
    return dict(found)


def inside(container: str, *command: str) -> str:
    """Run a program in a container and return what it wrote."""
    return subprocess.run(["docker", "exec", container, *command], check=True, capture_output=True).stdout.decode()


def open_ports(container: str) -> set[int]:
    """Return the ports on which something in the container listens, beyond its own loopback."""
    table = inside(container, "cat", "/proc/net/tcp", "/proc/net/tcp6")
    sockets = [fields[1].split(":") for fields in map(str.split, table.splitlines()) if fields[3] == _LISTENING]
    return {int(port, 16) for address, port in sockets if not _is_loopback(address)}


def _is_loopback(words: str) -> bool:
    """Tell whether an address of the kernel's table, in words of its own byte order, is a loopback one."""
    raw = b"".join(bytes.fromhex(words[at : at + 8])[::-1] for at in range(0, len(words), 8))
    address = ipaddress.ip_address(raw)
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _program() -> Sequence[str]:
    plugin = ("docker", "compose")
    if subprocess.run([*plugin, "version"], capture_output=True, check=False).returncode == 0:
        return plugin
    if shutil.which("docker-compose"):
        return ("docker-compose",)
    reason = "Docker Compose is not installed; on Debian: apt-get install docker-compose"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
