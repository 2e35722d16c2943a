"""
pytest-celery on the project's own image: its broker matrix, its Redis "backend" as the ledger, its worker ours.

Each test gets containers of its own on a network of its own, and a simulated rail and partner beside them.
"""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from pytest_celery import CeleryTestBroker, CeleryTestSetup, CeleryWorkerContainer
from pytest_celery.defaults import ALL_CELERY_BROKERS

# The fixture of this name in the outer conftest.py runs a worker in the test's process.
from pytest_celery.fixtures.worker import celery_worker as celery_worker  # noqa: PLC0414  # re-exported for pytest
from pytest_docker_tools import container, fxtr
from pytest_docker_tools.wrappers import Container

from tests.support import engine, fleet, partner_file
from tests.support.operator import Operator
from worker.simulators import effect_log, partner_log
from worker.simulators.effect_log import Tally

FLOWER_USER: Final = "operator:pass-of-the-operator"
#: Every address of a container, which has none but those of its network.
ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104  # of a container
_RAIL_LOG: Final = "/run/chio/rail.jsonl"
_PARTNER_LOG: Final = "/run/chio/partner.jsonl"
_IN_MEMORY: Final = {"/run/chio": "uid=10001,gid=10001,mode=700", "/tmp": "size=64m"}
_numbers = itertools.count()


@pytest.fixture(params=sorted(ALL_CELERY_BROKERS))
def celery_broker(request: pytest.FixtureRequest) -> Iterator[CeleryTestBroker]:
    """Give each broker in turn; pytest-celery keeps them in a set, whose order differs from process to process."""
    broker: CeleryTestBroker = request.getfixturevalue(request.param)
    yield broker
    broker.teardown()


@pytest.fixture(scope="session", autouse=True)
def _engine() -> None:
    """Skip everything here without an engine."""
    engine.require()


class ChioWorker(CeleryWorkerContainer):  # type: ignore[misc]  # pytest-celery is not typed for subclasses
    """The project's own image as a worker; it is started by its own command."""

    @classmethod
    def command(cls, *_args: str, **_options: Any) -> list[str]:
        """Return the command of the image."""
        return ["celery", "-A", "worker.app", "worker", "--without-gossip", "--without-mingle"]


@pytest.fixture
def default_worker_container_cls() -> type[ChioWorker]:
    """Have the project's own worker."""
    return ChioWorker


@pytest.fixture(scope="session")
def default_worker_container_session_cls() -> type[ChioWorker]:
    """Have the project's own worker."""
    return ChioWorker


@pytest.fixture
def default_redis_broker_image() -> str:
    """Use the local image."""
    return engine.REDIS


@pytest.fixture
def default_redis_backend_image() -> str:
    """Use the local image."""
    return engine.REDIS


@pytest.fixture
def default_rabbitmq_broker_image() -> str:
    """Use the local image."""
    return engine.RABBITMQ


@pytest.fixture
def default_redis_broker_command() -> list[str]:
    """Run the broker as a deployment does: a restart of it loses nothing."""
    return _REDIS


@pytest.fixture
def default_redis_backend_command() -> list[str]:
    """Run the ledger's server with its append-only file, without which a worker does not start."""
    return _REDIS


_REDIS: Final = ["redis-server", *["--bind", "*", "--protected-mode", "no", "--dir", "/data", "--appendonly", "yes"]]

rail = container(
    image=engine.WORKER,
    command=["chio-worker", *["simulate", "rail", "--host", ANY_ADDRESS, "--port", "8099"], "--log", _RAIL_LOG],
    network="{default_pytest_celery_network.name}",
    read_only=True,
    tmpfs=_IN_MEMORY,
)
partner = container(
    image=engine.WORKER,
    command=["chio-worker", *["simulate", "partner", "--host", ANY_ADDRESS, "--port", "8098"], "--log", _PARTNER_LOG],
    network="{default_pytest_celery_network.name}",
    read_only=True,
    tmpfs=_IN_MEMORY,
)
default_worker_container = container(
    image=engine.WORKER,
    environment=fxtr("default_worker_env"),
    network="{default_pytest_celery_network.name}",
    volumes=fxtr("worker_volumes"),
    wrapper_class=ChioWorker,
    timeout=60,
    command=fxtr("default_worker_command"),
    read_only=True,
    tmpfs=_IN_MEMORY,
)
beat = container(
    image=engine.WORKER,
    environment=fxtr("default_worker_env"),
    network="{default_pytest_celery_network.name}",
    command=["celery", "-A", "worker.app", "beat"],
    read_only=True,
    tmpfs=_IN_MEMORY,
)
flower = container(
    image=engine.WORKER,
    environment=fxtr("flower_env"),
    network="{default_pytest_celery_network.name}",
    command=["celery", "-A", "worker.app", "flower", "--conf=/opt/chio/flowerconfig.py"],
    ports={"5555/tcp": None},
    read_only=True,
    tmpfs=_IN_MEMORY,
)


@pytest.fixture
def partners_file(tmp_path: Path, partner: Container) -> Path:
    """Write a partner file with the simulated partner in it."""
    path = tmp_path / "partners.toml"
    path.write_text(
        f"""
[partners.acme]
url = "http://{_name(partner)}:8098/p/acme/never-confirm/ok"
secrets = ["env:ACME_SECRET"]
deadline_s = 2
allow_plain_http = true
allow_private_networks = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"]
status_rules = {{ "202" = "accepted_pending_verification" }}
"""
    )
    path.chmod(0o644)
    tmp_path.chmod(0o755)
    return path


@pytest.fixture
def worker_volumes(partners_file: Path) -> dict[str, dict[str, str]]:
    """Mount the partner file."""
    return {str(partners_file): {"bind": "/etc/chio/partners.toml", "mode": "ro"}}


@pytest.fixture
def default_worker_env(celery_worker_cluster_config: Mapping[str, Any], rail: Container) -> dict[str, str]:
    """Tell the project's settings where ledger and broker are; the times are short."""
    (ledger,) = celery_worker_cluster_config["celery_backend_cluster_config"]["urls"]
    (broker,) = celery_worker_cluster_config["celery_broker_cluster_config"]["urls"]
    return {
        **fleet.SHORT,
        "CHIO_REDIS_URL": ledger,
        "CHIO_BROKER_URL": broker,
        "CHIO_RAIL_URL": f"http://{_name(rail)}:8099/settle",
        "CHIO_PARTNERS_FILE": "/etc/chio/partners.toml",
        **partner_file.ENVIRON,
    }


@pytest.fixture
def flower_env(default_worker_env: dict[str, str]) -> dict[str, str]:
    """Put Flower behind a log-in, on every address of its container."""
    return {**default_worker_env, "CHIO_FLOWER_ADDRESS": ANY_ADDRESS, "CHIO_FLOWER_BASIC_AUTH": FLOWER_USER}


@dataclass(kw_only=True)
class Stack:
    """Hold one test's containers, with the operator's side in the test's process."""

    setup: CeleryTestSetup
    rail: Container
    partner: Container
    directory: Path
    partners_file: Path

    @property
    def broker_url(self) -> str:
        """Return the broker's address as it is reached from outside; a restart changes the port."""
        return _outside(self.setup.broker.container)

    @property
    def ledger_url(self) -> str:
        """Return the ledger's address as it is reached from outside."""
        return _outside(self.setup.backend.container)

    def operator(self) -> Operator:
        """Connect a producer and operator; the caller closes it."""
        folder = self.directory / f"operator-{next(_numbers)}"
        return Operator(self.ledger_url, folder, broker_url=self.broker_url)

    def settled(self) -> Tally:
        """Read what the rail did so far."""
        return effect_log.tally(effect_log.read(self._copied(self.rail, _RAIL_LOG)))

    def delivered(self) -> Tally:
        """Read what the partner did so far."""
        return partner_log.tally(partner_log.read(self._copied(self.partner, _PARTNER_LOG)))

    def _copied(self, made: Container, path: str) -> Path:
        code, content = made.exec_run(["cat", path])
        copy = self.directory / Path(path).name
        copy.write_bytes(content if code == 0 else b"")
        return copy


@pytest.fixture
def stack(
    celery_setup: CeleryTestSetup, rail: Container, partner: Container, partners_file: Path, tmp_path: Path
) -> Stack:
    """Run ledger, broker, worker, rail and partner in containers; every one of them is ready."""
    assert celery_setup.ready(docker=True)
    return Stack(setup=celery_setup, rail=rail, partner=partner, directory=tmp_path, partners_file=partners_file)


def _name(made: Container) -> str:
    return str(made.attrs["Config"]["Hostname"])


def _outside(made: Any) -> str:
    made.reload()
    ((inside, _),) = made.ports.items()
    address, port = made.get_addr(inside)
    return f"{made.prefix()}{address}:{port}/{made.vhost}"
