"""
Producers in two languages, as the wire contract shows them, on both brokers: what they send is settled, once.

They are run from the page itself; see `tests/support/producers.py`.
"""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

import pytest
import redis
from kombu.connection import Connection

from storage.quarantine import QuarantineEntry
from tests.support import fleet as fleets
from tests.support import producers, rabbit
from tests.support.fleet import Fleet
from tests.support.producers import Producers
from tests.support.rabbit import RabbitServer
from tests.support.rabbit_users import RabbitWithUsers
from tests.support.secured import SecuredServer
from tests.support.servers import RedisServer
from tests.support.worker_process import poll
from worker.envelope import Defect

pytestmark = [
    pytest.mark.server,
    pytest.mark.process,
    pytest.mark.timeout(300),
]

#: A database of the session's server that no other test uses.
DATABASE: Final = 59


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Producers:
    """Take the producers from the page."""
    return producers.from_the_page(tmp_path_factory.mktemp("producers"))


@pytest.fixture(scope="module", params=["redis", "rabbitmq"])
def fleet(
    request: pytest.FixtureRequest, redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    """Run a deployment with one worker on either broker."""
    directory, url = tmp_path_factory.mktemp(request.param), redis_server.url_of(DATABASE)
    with redis_server.client(DATABASE) as client, ExitStack() as stack:
        client.flushdb()
        broker_url = None
        if request.param == "rabbitmq":
            rabbit.require()
            broker_url = stack.enter_context(RabbitServer(directory / "node")).url
        fleet = stack.enter_context(fleets.running(directory, url, broker_url=broker_url))
        fleet.worker().wait_until_ready()
        yield fleet


def line(receipt_id: str, tool: str = "search.query") -> bytes:
    """Return an observation as one line."""
    return fleets.observation(receipt_id, tool).canonical_json()


def quarantined(fleet: Fleet, receipt_id: str) -> list[QuarantineEntry]:
    """Return what was set aside with this receipt in it."""
    kept = fleet.storage.quarantine
    return [entry for entry in kept.list(100, 0) if receipt_id.encode() in (kept.raw(entry.entry_id) or b"")]


@pytest.mark.parametrize("name", producers.NAMES)
def test_what_a_shown_producer_sends_is_settled(fleet: Fleet, shown: Producers, name: str) -> None:
    """The program on the page sends two observations, and both are settled with one effect each."""
    receipts = [f"{name}-1", f"{name}-2"]

    sent = shown.send(name, fleet.broker_url or fleet.redis_url, [line(receipt) for receipt in receipts])
    poll(lambda: all(fleet.effects(receipt) for receipt in receipts), fleets.LIMIT_S, "both to be settled")
    fleet.wait_until_idle()

    assert (sent.returncode, sent.stderr) == (0, b"")
    assert [fleet.effects(receipt) for receipt in receipts] == [1, 1]


def test_one_receipt_from_three_producers_is_settled_once(fleet: Fleet, shown: Producers) -> None:
    """The same observation comes from Celery, from kombu and from Node.js, twice each: one effect, five duplicates."""
    duplicates = fleet.counts().duplicates

    for name in producers.NAMES * 2:
        shown.send(name, fleet.broker_url or fleet.redis_url, [line("shared")]).check_returncode()
    poll(lambda: fleet.counts().duplicates == duplicates + 5, fleets.LIMIT_S, "every repeat to be recognised")

    assert (fleet.effects("shared"), fleet.requests("shared")) == (1, 1)
    assert quarantined(fleet, "shared") == []


@pytest.mark.parametrize("name", producers.NAMES)
def test_a_foreign_schema_is_set_aside(fleet: Fleet, shown: Producers, name: str) -> None:
    """An observation of a later schema is quarantined with the field in the reason; its producer sees nothing."""
    foreign = line(f"later-{name}").replace(b"observation.v1", b"observation.v9")

    sent = shown.send(name, fleet.broker_url or fleet.redis_url, [foreign])
    poll(lambda: bool(quarantined(fleet, f"later-{name}")), fleets.LIMIT_S, "the message to be quarantined")

    (entry,) = quarantined(fleet, f"later-{name}")
    assert (sent.returncode, entry.reason) == (0, "invalid_message:observation.schema")
    assert fleet.requests(f"later-{name}") == 0


@pytest.mark.parametrize("name", producers.NAMES)
def test_the_same_id_with_other_content_is_set_aside(fleet: Fleet, shown: Producers, name: str) -> None:
    """A second observation under a settled receipt's id is quarantined as a conflict, and the first one stands."""
    receipt = f"twice-{name}"
    shown.send(name, fleet.broker_url or fleet.redis_url, [line(receipt), line(receipt, "other.tool")])
    poll(lambda: bool(quarantined(fleet, receipt)), fleets.LIMIT_S, "the second one to be quarantined")
    fleet.wait_until_idle()

    (entry,) = quarantined(fleet, receipt)
    assert entry.reason == "invalid_message:conflict"
    assert fleet.effects(receipt) == 1


@pytest.mark.parametrize("name", producers.NAMES)
def test_a_message_too_large_is_set_aside(fleet: Fleet, shown: Producers, name: str) -> None:
    """A message beyond the limit is quarantined, the one behind it is settled, and the producer sees nothing."""
    large, small = f"large-{name}", f"small-{name}"
    bloated = line(large).replace(b'"content_hash":"', b'"content_hash":"' + b"x" * 1_048_576)

    sent = shown.send(name, fleet.broker_url or fleet.redis_url, [bloated, line(small)])
    poll(lambda: bool(quarantined(fleet, large)) and fleet.effects(small) == 1, fleets.LIMIT_S, "both to end")

    (entry,) = quarantined(fleet, large)
    assert (sent.returncode, entry.reason, fleet.requests(large)) == (0, Defect.TOO_LARGE, 0)


def test_a_message_without_id_is_set_aside(fleet: Fleet) -> None:
    """A message that names its task and carries no id is quarantined as such; its producer sees nothing."""
    options = {"global_keyprefix": "chio:broker:", "confirm_publish": True}
    with Connection(fleet.broker_url or fleet.redis_url, transport_options=options) as connection:
        connection.Producer(serializer="json", auto_declare=False).publish(
            [[], {"observation": fleets.observation("nameless").to_wire()}, {}],
            headers={"task": "chio.settle.observe", "for": "nameless"},
            exchange="",
            routing_key="settlement",
            mandatory=True,
        )
    poll(lambda: bool(quarantined(fleet, "nameless")), fleets.LIMIT_S, "the message to be quarantined")

    (entry,) = quarantined(fleet, "nameless")
    assert (entry.reason, fleet.requests("nameless")) == (Defect.MISSING_ID, 0)


@pytest.mark.parametrize("name", producers.NAMES)
def test_a_queue_that_nobody_reads_is_told_on_rabbitmq_alone(fleet: Fleet, shown: Producers, name: str) -> None:
    """A misspelt queue is an error on RabbitMQ; on Redis the message lies in a list, and nobody is told."""
    sent = shown.sending_to("settlemnet").send(name, fleet.broker_url or fleet.redis_url, [line("misspelt")])

    if fleet.broker_url:
        assert sent.returncode != 0
        assert b"NO_ROUTE" in sent.stderr or b"there is no queue settlemnet" in sent.stderr
    else:
        with redis.Redis.from_url(fleet.redis_url, protocol=2) as client:
            assert (sent.returncode, client.delete("chio:broker:settlemnet")) == (0, 1)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitWithUsers]:
    """Run a RabbitMQ with the shipped users, on which no worker ever ran."""
    rabbit.require()
    with RabbitWithUsers(tmp_path_factory.mktemp("guarded") / "node") as node:
        yield node


@pytest.mark.parametrize("name", producers.NAMES)
def test_a_queue_that_is_not_there_is_told_on_rabbitmq(guarded: RabbitWithUsers, shown: Producers, name: str) -> None:
    """On a RabbitMQ without the queue, a producer ends with an error instead of losing its message."""
    sent = shown.send(name, guarded.url_for("producer"), [line("nowhere")])

    assert sent.returncode != 0
    assert b"NO_ROUTE" in sent.stderr or b"there is no queue settlement" in sent.stderr


@pytest.mark.parametrize("name", producers.NAMES)
def test_a_user_without_rights_is_told_on_rabbitmq(guarded: RabbitWithUsers, shown: Producers, name: str) -> None:
    """Under a user that may send nothing, or with a wrong password, a producer ends with an error that says so."""
    url = guarded.url_for("reader")

    without_right = shown.send(name, url, [line("denied")])
    unknown = shown.send(name, url.replace("password-of", "guess-of"), [line("denied")])

    assert 0 not in (without_right.returncode, unknown.returncode)
    assert b"access to exchange 'amq.default'" in without_right.stderr
    assert re.search(rb"access.refused", unknown.stderr, flags=re.IGNORECASE)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredServer]:
    """Run a server with the shipped users."""
    with SecuredServer(tmp_path_factory.mktemp("secured")) as server:
        yield server


@pytest.mark.parametrize("name", producers.NAMES)
def test_the_shipped_user_cannot_misspell_a_queue(secured: SecuredServer, shown: Producers, name: str) -> None:
    """Under the producer's user of the shipped ACL a queue of another name is an error on Redis too."""
    sent = shown.sending_to("settlemnet").send(name, secured.url_for("producer"), [line("misspelt")])

    assert sent.returncode != 0
    assert b"permission" in sent.stderr.lower()


@pytest.mark.parametrize("name", producers.NAMES)
def test_a_user_without_rights_is_told(secured: SecuredServer, shown: Producers, name: str) -> None:
    """Under a user that may not write to the queue, or with a wrong password, a producer ends with an error."""
    url = secured.url_for("reader")

    without_right = shown.send(name, url, [line("denied")])
    unknown = shown.send(name, url.replace("password-of", "guess-of"), [line("denied")])

    assert 0 not in (without_right.returncode, unknown.returncode)
    assert b"permission" in without_right.stderr.lower()
    assert b"invalid username-password pair" in unknown.stderr.lower()
    with secured.client_of("admin") as client:
        assert client.exists("chio:broker:settlement") == 0
