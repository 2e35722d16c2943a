"""
Producers in two languages, as the wire contract shows them, on both brokers: what they send is settled, once.

They are run from the page itself; see `tests/support/producers.py`.
"""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

import pytest

from storage.quarantine import QuarantineEntry
from tests.support import fleet as fleets
from tests.support import producers, rabbit
from tests.support.fleet import Fleet
from tests.support.producers import Producers
from tests.support.rabbit import RabbitServer
from tests.support.secured import SecuredServer
from tests.support.servers import RedisServer
from tests.support.worker_process import poll

pytestmark = [
    pytest.mark.server,
    pytest.mark.process,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("producers"),
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


@pytest.fixture(scope="module")
def empty_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitServer]:
    """Run a RabbitMQ on which no worker ever ran."""
    rabbit.require()
    with RabbitServer(tmp_path_factory.mktemp("empty") / "node") as node:
        yield node


@pytest.mark.parametrize("name", producers.NAMES)
def test_a_queue_that_is_not_there_is_told_on_rabbitmq(empty_node: RabbitServer, shown: Producers, name: str) -> None:
    """On a RabbitMQ without the queue, a producer ends with an error instead of losing its message."""
    sent = shown.send(name, empty_node.url, [line("nowhere")])

    assert sent.returncode != 0
    assert b"NO_ROUTE" in sent.stderr or b"there is no queue settlement" in sent.stderr


@pytest.mark.parametrize("name", producers.NAMES)
def test_a_wrong_password_is_told_on_rabbitmq(empty_node: RabbitServer, shown: Producers, name: str) -> None:
    """With a wrong password on RabbitMQ, a producer ends with an error that says so."""
    sent = shown.send(name, empty_node.url.replace("guest:guest", "guest:guess"), [line("denied")])

    assert sent.returncode != 0
    assert re.search(rb"access.refused", sent.stderr, flags=re.IGNORECASE)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredServer]:
    """Run a server with the shipped users."""
    with SecuredServer(tmp_path_factory.mktemp("secured")) as server:
        yield server


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
