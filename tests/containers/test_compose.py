"""
The stack of `docker-compose.yml`, end to end: from nothing to healthy, through kills, restarts and a new image.

One stack on Redis for most of it, one on RabbitMQ for its profile; every command of the operator is run inside.
"""

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from typing import Final

import pytest

from tests.support import compose, engine, fleet
from tests.support.compose import Project
from tests.support.worker_process import ROOT, poll
from worker.simulators import partner_log
from worker.simulators.effect_log import LogEntry
from worker.simulators.partner_log import PartnerLogEntry

pytestmark = [
    pytest.mark.containers,
    pytest.mark.timeout(900),
]

LIMIT_S: Final = 240.0
EXAMPLES: Final = (ROOT / "examples/observations.jsonl").read_bytes()
#: How many of the file's lines are jobs; the others are duplicates, a conflict and lines that are none.
JOBS: Final = 927
DELIVERIES: Final = (ROOT / "examples/deliveries.jsonl").read_bytes()
#: How many of the file's deliveries go to the partner that takes all, that confirms late, that never confirms.
TAKEN, CONFIRMED_LATE, NEVER_CONFIRMED = 60, 24, 6
SERVICES: Final = ("redis", "worker", "beat", "flower")
#: The image of a newer version.
ROLLED: Final = "chio-test/worker:rolled"
SETTINGS: Final = {
    **{name: value for name, value in fleet.SHORT.items() if "HOOK" not in name},
    "CHIO_SOFT_SHUTDOWN_TIMEOUT_S": "5",
    # Time to hand receipts in from outside before what waits for them is sent again.
    "CHIO_MAX_PENDING_AGE_S": "10",
}
#: Logs in as nobody of ours and tells what came of it.
STRANGER_ON_RABBITMQ: Final = """
from kombu import Connection
for login in ("guest:guest", "worker:guess"):
    try:
        print(Connection(f"amqp://{login}@rabbitmq:5672//").connect())
    except Exception as error:
        print(type(error).__name__)
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Start the stack on Redis, with the simulators."""
    engine.require()
    directory = tmp_path_factory.mktemp("compose")
    with compose.up(directory, "chio-test", profiles=["simulators"], settings=SETTINGS, environ={}) as project:
        yield project


def wait_until_idle(project: Project, kind: str = "settlement") -> dict[str, int]:
    """Wait until no job of the kind is in flight and return its counts."""
    found: list[dict[str, int]] = []

    def is_idle() -> bool:
        found.append(project.command("status")["kinds"][kind])
        return found[-1]["in_flight"] == 0

    poll(is_idle, LIMIT_S, "every job to end")
    return found[-1]


def enqueue(project: Project, *receipt_ids: str, tool: str = "search.query") -> None:
    """Enqueue settlements from inside."""
    lines = [fleet.observation(receipt_id, tool).canonical_json() for receipt_id in receipt_ids]
    answer = project.command("enqueue", "settlement", "-", stdin=b"\n".join(lines))
    assert answer["admitted"] == len(receipt_ids)


def test_it_is_healthy_from_nothing(project: Project) -> None:
    """Every container becomes healthy, as no root and on a file system it cannot write, and doctor finds nothing."""
    project.wait_until_healthy(*SERVICES)

    doctor = project.command("doctor")
    facts = [compose.inspected(container) for name in SERVICES for container in project.containers(name)]
    assert (doctor["safe"], doctor["findings"]) == (True, [])
    assert all(fact["HostConfig"]["ReadonlyRootfs"] for fact in facts)
    assert {(fact["Config"]["User"] or "0").split(":")[0] for fact in facts} == {"999", "10001"}


def test_the_examples_go_through_and_a_killed_worker_changes_nothing(project: Project) -> None:
    """The demo's receipts are enqueued, the worker is killed in mid-load and started again: the numbers add up."""
    before = wait_until_idle(project)
    slow = [f"killed-{number}" for number in range(24)]
    enqueue(project, *slow, tool="rail.slow-1")
    answer = project.command("enqueue", "settlement", "-", stdin=EXAMPLES, code=1)
    project.run("kill", "-s", "KILL", "worker")
    killed = project.command("status")["kinds"]["settlement"]
    project.run("up", "--detach", "--no-build", "worker")

    after = wait_until_idle(project)
    ended = {name: after[name] - before[name] for name in ("admitted", "settled", "skipped", "dead")}
    assert killed["in_flight"] > 0
    assert answer["admitted"] == JOBS
    assert ended["admitted"] == ended["settled"] + ended["skipped"] + ended["dead"] == JOBS + len(slow)
    assert after["balanced"]
    assert settled(project, "killed") == dict.fromkeys(slow, 1)


def test_the_examples_are_delivered(project: Project) -> None:
    """The demo's deliveries go through: taken, confirmed by receipts, or escalated and dead; the numbers add up."""
    deliver_examples(project)


@pytest.mark.parametrize("service", ["redis", "worker", "beat", "flower"])
def test_a_restart_of_any_service_under_load_loses_nothing(project: Project, service: str) -> None:
    """Jobs are waiting and running while a service restarts: each is settled, with one effect, and all is kept."""
    before = wait_until_idle(project)
    receipts = [f"{service}-{number}" for number in range(12)]
    enqueue(project, *receipts, tool="rail.slow-0.3")
    project.run("restart", "--timeout", "10", service)
    project.wait_until_healthy("redis")

    after = wait_until_idle(project)
    assert settled(project, service) == dict.fromkeys(receipts, 1)
    assert (after["admitted"], after["balanced"]) == (before["admitted"] + len(receipts), True)


def test_a_new_image_is_rolled_out_without_losing_a_job(project: Project) -> None:
    """Two workers on a new image take over under load from the one on the old: each job is settled, with one effect."""
    receipts = [f"rolled-{number}" for number in range(20)]
    before = set(project.containers("worker"))
    enqueue(project, *receipts, tool="rail.slow-0.3")
    subprocess.run(
        ["docker", "build", "--quiet", "--tag", ROLLED, "-"],
        input=f"FROM {engine.WORKER}\nLABEL rolled=out\n".encode(),
        env={**os.environ, "DOCKER_BUILDKIT": "0"},
        check=True,
        capture_output=True,
    )
    rolled = project.on_image(ROLLED)
    rolled.run("up", "--detach", "--no-build", "--no-deps", "--scale", "worker=2", "worker")

    wait_until_idle(project)
    after = set(project.containers("worker"))
    assert (len(after), after & before) == (2, set())
    assert settled(project, "rolled") == dict.fromkeys(receipts, 1)


def test_strangers_get_nothing(project: Project) -> None:
    """Without a log-in the server answers no command, Flower shows no page, and nothing else listens."""
    (flower,) = project.containers("flower")
    asked = """
import socket, urllib.error, urllib.request
with socket.create_connection(("redis", 6379), timeout=5) as plain:
    plain.sendall(b"PING\\r\\nINFO\\r\\nKEYS *\\r\\n")
    print(plain.recv(1000).decode().split()[0])
for page in ("/", "/workers", "/api/workers", "/metrics", "/healthcheck"):
    try:
        print(urllib.request.urlopen(f"http://flower:5555{page}", timeout=5).status)
    except urllib.error.HTTPError as error:
        print(error.code)
"""

    assert compose.inside(flower, "python", "-c", asked).split() == ["-NOAUTH", *["401"] * 5]
    assert listening(project, *SERVICES) == {"redis": {6379}, "flower": {5555}, "worker": set(), "beat": set()}


def test_the_same_numbers_on_rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> None:
    """With the profile `rabbitmq` the demo's files come to the same numbers, and strangers get nothing."""
    directory = tmp_path_factory.mktemp("compose-rabbitmq")
    environ = {"CHIO_BROKER_URL_FILE": "/run/secrets/broker_url"}
    profiles = ["simulators", "rabbitmq"]
    with compose.up(directory, "chio-test-rmq", profiles=profiles, settings=SETTINGS, environ=environ) as project:
        project.wait_until_healthy("rabbitmq", *SERVICES)
        project.command("enqueue", "settlement", "-", stdin=EXAMPLES, code=1)
        project.run("restart", "--timeout", "10", "rabbitmq")
        counts = wait_until_idle(project)
        deliver_examples(project)
        (worker,) = project.containers("worker")
        stranger = compose.inside(worker, "python", "-c", STRANGER_ON_RABBITMQ)
        ports = listening(project, "rabbitmq", "worker", "beat")

    assert counts["admitted"] == counts["settled"] + counts["skipped"] + counts["dead"] == JOBS
    assert counts["balanced"]
    assert stranger.split() == ["AccessRefused"] * 2
    assert ports == {"rabbitmq": {5672}, "worker": set(), "beat": set()}


def deliver_examples(project: Project) -> None:
    """Enqueue the demo's deliveries, hand in the receipts of the partner that confirms late, and check every number."""
    answer = project.command("enqueue", "delivery", "-", stdin=DELIVERIES, code=1)
    (partner,) = project.containers("partner")

    def receipts() -> list[str]:
        return compose.inside(partner, "sh", "-c", "cat /run/chio/receipts.jsonl 2>/dev/null || true").splitlines()

    poll(lambda: len({message_of(line) for line in receipts()}) == CONFIRMED_LATE, LIMIT_S, "every receipt")
    project.command("enqueue", "receipts", "-", stdin="\n".join(receipts()).encode(), code=0)
    counts = wait_until_idle(project, "delivery")
    log = compose.inside(partner, "cat", "/run/chio/partner.jsonl")
    tally = partner_log.tally(map(PartnerLogEntry.from_json, log.encode().splitlines()))

    assert answer["admitted"] == TAKEN + CONFIRMED_LATE + NEVER_CONFIRMED
    assert (counts["admitted"], counts["confirmed"], counts["dead"]) == (
        answer["admitted"],
        TAKEN + CONFIRMED_LATE,
        NEVER_CONFIRMED,
    )
    assert counts["balanced"]
    assert (tally.effects, tally.keys_with_differing_bodies) == (answer["admitted"], [])


def message_of(receipt: str) -> str:
    """Return which message a receipt is about."""
    return str(json.loads(receipt)["headers"]["webhook-id"])


def listening(project: Project, *services: str) -> dict[str, set[int]]:
    """Return the ports on which the first container of each service listens for others."""
    return {service: compose.open_ports(project.containers(service)[0]) for service in services}


def settled(project: Project, prefix: str) -> dict[str, int]:
    """Return how many effects the rail carried out for each receipt that begins so."""
    (rail,) = project.containers("rail")
    entries = map(LogEntry.from_json, compose.inside(rail, "cat", "/run/chio/rail.jsonl").encode().splitlines())
    return dict(Counter(entry.key for entry in entries if entry.effect and entry.key.startswith(f"{prefix}-")))
