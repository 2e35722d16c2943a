"""
The shipped users of RabbitMQ do their work with what `deploy/rabbitmq/users.conf` gives them, and nothing beyond it.

One deployment runs under these users: whatever the node refused to one of them while it did its work is a right that is
missing. What each may not do is tried beside it.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
from amqp.exceptions import AccessRefused
from kombu.connection import Connection
from kombu.entity import Exchange, Queue

from tasks import names
from tests.support import fleet as fleets
from tests.support import rabbit
from tests.support.cli_process import chio_worker
from tests.support.fleet import Fleet
from tests.support.flower import Flower
from tests.support.rabbit_users import RabbitWithUsers, User
from tests.support.servers import RedisServer
from tests.support.worker_process import CelerySubprocess, poll

pytestmark = [pytest.mark.server, pytest.mark.process]

#: A database of the session's server that no other test uses.
DATABASE: Final = 58
LIMIT_S: Final = 90.0


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitWithUsers]:
    """Run a node with the shipped users."""
    rabbit.require()
    with RabbitWithUsers(tmp_path_factory.mktemp("rabbit") / "node") as node:
        yield node


@pytest.fixture(scope="module")
def fleet(
    node: RabbitWithUsers, redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    """Run a deployment whose worker logs in as `worker` and whose operator as `operator`; the worker tells events."""
    settings = {"CHIO_SEND_TASK_EVENTS": "true", "CHIO_SETTLEMENT_MAX_RETRIES": "1"}
    directory, url = tmp_path_factory.mktemp("fleet"), redis_server.url_of(DATABASE)
    with redis_server.client(DATABASE) as client:
        client.flushdb()
    with fleets.running(directory, url, broker_url=node.url_for("operator"), settings=settings) as fleet:
        fleet.worker(CHIO_BROKER_URL=node.url_for("worker")).wait_until_ready()
        yield fleet


def publish_to(exchange: str, routing_key: str) -> Callable[[Any], object]:
    """Return the sending of one message."""
    return lambda connection: connection.Producer(auto_declare=False).publish(
        {}, exchange=exchange, routing_key=routing_key
    )


def take_from(queue: str) -> Callable[[Any], object]:
    """Return the taking of one message."""
    return lambda connection: Queue(queue, no_declare=True)(connection.channel()).get()


def purge(queue: str) -> Callable[[Any], object]:
    """Return the emptying of a queue."""
    return lambda connection: Queue(queue)(connection.channel()).purge()


def delete(queue: str) -> Callable[[Any], object]:
    """Return the deletion of a queue."""
    return lambda connection: Queue(queue)(connection.channel()).delete()


def declare(name: str) -> Callable[[Any], object]:
    """Return the making of a queue."""
    return lambda connection: Queue(name, durable=True)(connection.channel()).declare()


def fan_out(name: str) -> Callable[[Any], object]:
    """Return the making of an exchange."""
    return lambda connection: Exchange(name, type="fanout")(connection.channel()).declare()


FEED: Final = names.DEAD_LETTER_QUEUE
#: What nobody may do, whoever logs in.
FORBIDDEN_TO_ALL: Final = (
    declare("foreign"),
    fan_out("foreign"),
    publish_to("amq.topic", "x"),
    publish_to("amq.fanout", "x"),
    take_from("foreign"),
    delete("foreign"),
)
#: What one of them may not do, though another may.
FORBIDDEN: Final[dict[User, tuple[Callable[[Any], object], ...]]] = {
    "worker": (take_from(FEED), purge(FEED)),
    "producer": (
        declare("settlement"),
        take_from("settlement"),
        purge("settlement"),
        delete("settlement"),
        take_from(FEED),
        publish_to("chio", "settlement"),
        publish_to("celery.pidbox", ""),
    ),
    "operator": (take_from("settlement"), purge("delivery"), take_from(FEED), publish_to("celeryev", "x")),
    "flower": (
        publish_to("", "settlement"),
        publish_to("chio", "settlement"),
        take_from("settlement"),
        delete("settlement"),
        take_from(FEED),
    ),
    "beat": (publish_to("", "settlement"), declare("settlement"), take_from("housekeeping"), take_from(FEED)),
    "reader": (publish_to("", "settlement"), take_from("settlement"), delete(FEED), declare(FEED)),
}


def is_denied(node: RabbitWithUsers, user: User, attempt: Callable[[Any], object]) -> bool:
    """Tell whether the node refuses this to the user."""
    options = {"confirm_publish": True}
    with Connection(node.url_for(user), transport_options=options) as connection:
        try:
            attempt(connection)
        except AccessRefused:
            return True
    return False


@pytest.mark.usefixtures("fleet")
@pytest.mark.parametrize("user", FORBIDDEN)
def test_nobody_may_do_what_no_part_needs(node: RabbitWithUsers, user: User) -> None:
    """No shipped user can declare, fill, read or delete what is not ours."""
    assert [number for number, attempt in enumerate(FORBIDDEN_TO_ALL) if not is_denied(node, user, attempt)] == []


@pytest.mark.usefixtures("fleet")
@pytest.mark.parametrize("user", FORBIDDEN)
def test_no_user_may_do_the_work_of_another(node: RabbitWithUsers, user: User) -> None:
    """Each user is refused what only another one needs."""
    assert [number for number, attempt in enumerate(FORBIDDEN[user]) if not is_denied(node, user, attempt)] == []


@pytest.mark.parametrize("login", ["guest:guest", "worker:guess", "chio:guess"])
def test_a_stranger_gets_nothing(node: RabbitWithUsers, login: str) -> None:
    """Without a name of the shipped users and its password nobody gets in, the node's own guest included."""
    with Connection(f"amqp://{login}@127.0.0.1:{node.port}//") as connection, pytest.raises(AccessRefused):
        connection.connect()


def test_worker_and_operator_do_their_work(fleet: Fleet, node: RabbitWithUsers, tmp_path: Path) -> None:
    """Settling, retrying after a delay, a dead letter, its replay and doctor need nothing that is refused."""
    before = {user: node.refused(user) for user in ("worker", "operator")}
    environ = {"CHIO_BROKER_URL": node.url_for("operator")}
    fleet.enqueue("settled")
    fleet.enqueue("retried", tool="rail.fail-once")
    fleet.enqueue("dead", tool="rail.always-503")
    fleet.wait_until_idle()
    poll(lambda: fleet.storage.dead_letters.unpublished_count() == 0, LIMIT_S, "the dead letter to be published")

    commands = (["status"], ["doctor"], ["dead-letters", "replay", "dead", "--yes"])
    answers = [chio_worker(tmp_path, fleet.redis_url, *words, environ=environ) for words in commands]
    fleet.wait_until_idle()

    assert [(answer.args[1:], answer.stderr) for answer in answers if answer.returncode] == []
    assert (sum(fleet.counts().finished.values()), fleet.counts().dead) == (2, 1)
    assert {user: node.refused(user) for user in ("worker", "operator")} == before


def test_a_producer_sends_to_a_queue_by_its_name(fleet: Fleet, node: RabbitWithUsers) -> None:
    """A foreign producer's observation is settled; it publishes to a queue's name and needs nothing else."""
    before = node.refused("producer")
    with Connection(node.url_for("producer"), transport_options={"confirm_publish": True}) as connection:
        connection.Producer(serializer="json", auto_declare=False).publish(
            [[], {"observation": fleets.observation("foreign").to_wire()}, {}],
            headers={"task": names.OBSERVE_SETTLEMENT, "id": "foreign"},
            exchange="",
            routing_key=names.SETTLEMENT_QUEUE,
            mandatory=True,
        )

    poll(lambda: fleet.effects("foreign") == 1, LIMIT_S, "the observation to be settled")
    assert node.refused("producer") == before


def test_a_reader_takes_dead_letters(fleet: Fleet, node: RabbitWithUsers) -> None:
    """Another system reads the dead-letter feed with kombu alone, without declaring it."""
    fleet.enqueue("unlucky", tool="rail.always-503")
    fleet.wait_until_idle()
    found = set()
    with Connection(node.url_for("reader")) as connection:
        queue = connection.SimpleQueue(Queue(FEED, no_declare=True), no_ack=True)
        with closing(queue):
            while "unlucky" not in found:
                found.add(queue.get(timeout=LIMIT_S).payload["receipt_id"])

    assert "unlucky" in found


def test_beat_ticks(fleet: Fleet, node: RabbitWithUsers, tmp_path: Path) -> None:
    """Beat sends its ticks and answers the operator's ping."""
    before = {user: node.refused(user) for user in ("beat", "operator")}
    environ = {**fleet.environ(), "CHIO_BROKER_URL": node.url_for("beat")}
    asked = {"CHIO_BROKER_URL": node.url_for("operator")}

    def findings() -> list[str]:
        answer = chio_worker(tmp_path, fleet.redis_url, "doctor", "--json", environ=asked)
        return [finding["check"] for finding in json.loads(answer.stdout)["findings"]]

    with CelerySubprocess(tmp_path / "beat", environ, "beat") as beat:
        poll(lambda: "Sending due task" in beat.log_text(), LIMIT_S, "a tick")
        poll(lambda: "beat" not in findings(), LIMIT_S, "doctor to see one beat")

    assert {user: node.refused(user) for user in ("beat", "operator")} == before


def test_flower_shows_workers(fleet: Fleet, node: RabbitWithUsers, tmp_path: Path) -> None:
    """Flower hears events and asks workers under its own user."""
    before = node.refused("flower")
    flower = Flower(tmp_path, fleet.redis_url, CHIO_BROKER_URL=node.url_for("flower"))
    with flower.process:
        poll(lambda: flower.get("/workers")[0] == 200, LIMIT_S, "Flower to answer")
        poll(lambda: "w0@" in flower.get("/api/workers?refresh=1")[1], LIMIT_S, "Flower to see the worker")
        fleet.enqueue("seen")
        poll(lambda: "seen" in flower.get("/api/tasks")[1], LIMIT_S, "Flower to see the task")

    assert node.refused("flower") == before


@pytest.mark.parametrize(
    "change,said",
    [
        (("password-of", "guess-of"), "Login was refused"),
        (("worker:password-of-worker", "reader:password-of-reader"), "access to exchange 'chio'"),
        (("//", "/missing"), "vhost missing not found"),
    ],
)
def test_a_refused_worker_ends_with_a_sentence(
    node: RabbitWithUsers, redis_url: str, tmp_path: Path, change: tuple[str, str], said: str
) -> None:
    """A worker that the broker refuses ends with code 2 and a sentence that says what to check, without a password."""
    scheme, rest = node.url_for("worker").split("://")
    environ = {"CHIO_REDIS_URL": redis_url, "CHIO_BROKER_URL": f"{scheme}://{rest.replace(*change)}"}
    with CelerySubprocess(tmp_path, environ, "worker") as worker:
        assert worker.wait(LIMIT_S) == 2

    log = worker.log_text()
    assert log.count("The broker refused this user") == 1
    assert said in log
    assert "check user, password and virtual host in CHIO_BROKER_URL" in log
    assert "password-of" not in log


def test_doctor_says_that_the_broker_refuses(node: RabbitWithUsers, redis_url: str, tmp_path: Path) -> None:
    """With a wrong password for the broker, doctor names it and does not say that nobody answers."""
    environ = {"CHIO_BROKER_URL": node.url_for("operator").replace("password-of", "guess-of")}

    answer = chio_worker(tmp_path, redis_url, "doctor", "--json", environ=environ)

    found = [(entry["check"], entry["severity"]) for entry in json.loads(answer.stdout)["findings"]]
    assert (answer.returncode, found) == (1, [("broker: user", "unsafe")])
