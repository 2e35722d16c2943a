"""The lean Redis transport: kombu's own behaviour with fewer exchanges, beside stock readers, on a real server."""

import functools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from kombu.asynchronous import Hub
from kombu.connection import Connection
from kombu.entity import Queue
from kombu.messaging import Consumer
from kombu.transport import redis as stock_transport

from tests.support.servers import RedisServer
from worker import lean_transport

pytestmark = pytest.mark.server

PREFIX = "lean:"
UNACKED, INDEX = "lean:unacked", "lean:unacked_index"


class Taker:
    """Take messages from queues on one connection."""

    def __init__(self, connection: Any, queues: list[str], window: int = 100, *, no_ack: bool = False) -> None:
        self.messages: list[Any] = []
        self.connection = connection
        self.channel = connection.default_channel
        self.channel.basic_qos(0, window, False)  # kombu's own
        consumer = Consumer(
            self.channel, [Queue(name) for name in queues], on_message=self.messages.append, no_ack=no_ack
        )
        consumer.consume()

    def take(self, count: int) -> list[Any]:
        """Read until there are so many messages."""
        while len(self.messages) < count:
            self.connection.drain_events(timeout=10)
        return [json.loads(message.body) for message in self.messages]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """Run a server of this test's own: its statistics are counted."""
    with RedisServer(tmp_path) as running:
        yield running


@pytest.fixture
def connect(server: RedisServer) -> Iterator[Callable[..., Any]]:
    """Return what opens connections, lean or stock."""
    opened: list[Any] = []

    def opener(transport: type[Any] = lean_transport.LeanTransport, **options: Any) -> Any:
        given = {"global_keyprefix": PREFIX, "unacked_restore_throttle": 1, **options}
        connection = Connection(server.url, transport=transport, transport_options=given)
        opened.append(connection)
        return connection

    yield opener
    for connection in opened:
        connection.release()


@pytest.fixture
def put(connect: Callable[..., Any]) -> Callable[..., None]:
    """Return what puts numbers into a queue, by stock kombu."""
    producer = connect(stock_transport.Transport).Producer()

    def putter(numbers: range, queue: str = "a", **options: Any) -> None:
        for number in numbers:
            producer.publish(number, routing_key=queue, **options)

    return putter


def commands(client: redis.Redis) -> int:
    """Return how many commands clients have sent, those inside of scripts left out."""
    stats: Any = client.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("evalsha", "exec", "brpop", "ping"))


def looks(client: redis.Redis) -> int:
    """Return how often a list was looked at for messages."""
    stats: Any = client.info("commandstats")
    return int(stats.get("cmdstat_rpop", {"calls": 0})["calls"])


def test_many_messages_come_with_one_exchange(server: RedisServer, connect: Any, put: Any) -> None:
    """What waits is taken in its order, up to the window, by one script."""
    put(range(20))
    taker = Taker(connect(), ["a"], window=8)
    with server.client() as client:
        before = commands(client)

        taken = taker.take(8)

        assert taken == list(range(8))
        assert commands(client) - before == 1
        assert client.llen("lean:a") == 12
        assert client.hlen(UNACKED) == client.zcard(INDEX) == 8


def test_what_is_taken_is_tracked_as_stock_kombu_does(connect: Any, put: Any) -> None:
    """Whoever is killed with messages in hand leaves entries that a stock reader hands out again."""
    put(range(3))
    Taker(connect(), ["a"], window=3).take(3)

    stock = connect(stock_transport.Transport, visibility_timeout=0)
    stock.default_channel.qos.restore_visible(num=100, interval=1)

    again = Taker(connect(stock_transport.Transport), ["a"], window=3)
    assert sorted(again.take(3)) == [0, 1, 2]
    assert all(message.headers["redelivered"] for message in again.messages)


def test_messages_that_a_stock_reader_left_are_handed_out_again(connect: Any, put: Any) -> None:
    """The other way round: a lean reader restores what a stock one never finished."""
    put(range(2))
    Taker(connect(stock_transport.Transport), ["a"], window=2).take(2)

    lean = connect(visibility_timeout=0)
    lean.default_channel.qos.restore_visible(num=100, interval=1)

    assert sorted(Taker(connect(), ["a"]).take(2)) == [0, 1]


def test_acknowledged_messages_are_gone(server: RedisServer, connect: Any, put: Any) -> None:
    """Without an event loop an acknowledgement is sent at once."""
    put(range(2))
    taker = Taker(connect(), ["a"])
    taker.take(2)

    taker.messages[0].ack()

    with server.client() as client:
        assert client.hlen(UNACKED) == client.zcard(INDEX) == 1


def test_rejected_messages_go_back_to_the_front(server: RedisServer, connect: Any, put: Any) -> None:
    """A message that is given back is read next; one that is refused is gone."""
    put(range(2))
    taker = Taker(connect(), ["a"], window=2)
    taker.take(2)

    taker.messages[0].reject()
    taker.messages[1].requeue()

    with server.client() as client:
        assert client.hlen(UNACKED) == 0
        assert client.llen("lean:a") == 1


def test_an_event_loop_gathers_acknowledgements(server: RedisServer, connect: Any, put: Any) -> None:
    """In an event loop acknowledgements travel with the next question: one exchange for all of them."""
    put(range(10))
    connection, hub = connect(), Hub()
    taker = Taker(connection, ["a"], window=10)
    connection.transport.register_with_event_loop(connection.connection, hub)
    turn(hub, until=lambda: len(taker.messages) == 10)
    with server.client() as client:
        before = commands(client)

        for message in taker.messages:
            message.ack()

        assert client.hlen(UNACKED) == 10, "sent at once"
        turn(hub, until=lambda: not client.hlen(UNACKED))
        assert client.zcard(INDEX) == 0
        assert commands(client) - before == 1
    hub.close()


def test_acknowledgements_are_sent_while_the_window_is_full(server: RedisServer, connect: Any, put: Any) -> None:
    """A window of one that is full again at once does not hold acknowledgements back."""
    put(range(3))
    connection, hub = connect(), Hub()
    taker = Taker(connection, ["a"], window=1)
    connection.transport.register_with_event_loop(connection.connection, hub)
    turn(hub, until=lambda: len(taker.messages) == 1)

    taker.channel.basic_qos(0, 0, False)  # kombu's own
    taker.messages[0].ack()
    turn(hub, until=lambda: len(taker.messages) == 3)

    with server.client() as client:
        assert client.hlen(UNACKED) == 2
    hub.close()


def test_acknowledgements_reach_the_server_before_a_channel_closes(server: RedisServer, connect: Any, put: Any) -> None:
    """What waits to be acknowledged when a worker ends is not handed out again."""
    put(range(2))
    connection, hub = connect(), Hub()
    taker = Taker(connection, ["a"])
    connection.transport.register_with_event_loop(connection.connection, hub)
    turn(hub, until=lambda: len(taker.messages) == 2)
    taker.messages[0].ack()

    connection.close()

    with server.client() as client:
        assert client.hlen(UNACKED) == 0
        assert client.llen("lean:a") == 1, "what was not finished goes back"
    hub.close()


def test_an_idle_reader_asks_nothing_and_is_told(server: RedisServer, connect: Any, put: Any) -> None:
    """While nothing comes the server hears nothing; when something comes, in any of the queues, the reader knows."""
    taker = Taker(connect(), ["a", "b"])
    with server.client() as client:
        drain_nothing(taker)
        before = looks(client)
        for _ in range(5):
            drain_nothing(taker)
        assert looks(client) == before

        put(range(1), queue="b")

        assert taker.take(1) == [0]
        assert looks(client) - before == 2 * len(taker.channel.priority_steps), "one look at each list"


def test_news_that_came_with_the_answer_are_not_missed(connect: Any, put: Any) -> None:
    """Messages that come one by one, each just after the reader found nothing, are all read."""
    taker = Taker(connect(), ["a"])
    for number in range(50):
        put(range(number, number + 1))
        assert taker.take(number + 1)[-1] == number


def test_priorities_are_read_in_kombus_order(connect: Any, put: Any) -> None:
    """The four lists of a queue are read as by stock kombu: the highest priority first."""
    put(range(1), priority=9)
    put(range(1, 2), priority=0)
    put(range(2, 3), priority=3)

    lean = Taker(connect(), ["a"]).take(3)

    put(range(1), queue="b", priority=9)
    put(range(1, 2), queue="b", priority=0)
    put(range(2, 3), queue="b", priority=3)
    assert lean == Taker(connect(stock_transport.Transport), ["b"]).take(3)


def test_no_queue_starves(connect: Any, put: Any) -> None:
    """A long queue does not keep the next one from being read."""
    put(range(100))
    put(range(100, 101), queue="b")
    taker = Taker(connect(), ["a", "b"], window=0)

    taken = taker.take(2 * lean_transport.MOST_MESSAGES)

    assert 100 in taken


def test_readers_that_acknowledge_nothing_leave_nothing(server: RedisServer, connect: Any, put: Any) -> None:
    """Messages for a consumer without acknowledgements are forgotten once they are delivered."""
    put(range(3))
    connection = connect()
    Taker(connection, ["a"], no_ack=True).take(3)

    connection.close()

    with server.client() as client:
        assert client.keys("lean:unacked*") == []
        assert client.llen("lean:a") == 0


def test_a_server_that_forgot_its_scripts_is_told_again(server: RedisServer, connect: Any, put: Any) -> None:
    """After SCRIPT FLUSH the reader goes on over the same connection."""
    taker = Taker(connect(), ["a"])
    put(range(1))
    taker.take(1)
    with server.client() as client:
        client.script_flush()

    put(range(1, 2))

    assert taker.take(2) == [0, 1]


def test_a_connection_that_is_cut_is_an_error_and_the_next_one_reads_on(
    server: RedisServer, connect: Any, put: Any
) -> None:
    """Whoever reads learns of a lost connection; whoever connects again gets everything that was not finished."""
    taker = Taker(connect(), ["a"])
    put(range(1))
    taker.take(1)
    drain_nothing(taker)
    with server.client() as client:
        client.client_kill_filter(_type="normal", skipme=True)

    with pytest.raises(taker.connection.connection_errors):
        taker.take(2)

    taker.connection.close()
    put_again = connect(stock_transport.Transport).Producer()
    put_again.publish(1, routing_key="a")
    assert sorted(Taker(connect(), ["a"]).take(2)) == [0, 1]


def test_a_full_server_hands_out_what_it_has(server: RedisServer, connect: Any, put: Any) -> None:
    """With no memory left and nothing evicted, messages are taken, tracked and acknowledged."""
    put(range(3))
    taker = Taker(connect(), ["a"])
    with server.client() as client:
        client.config_set("maxmemory", "1")
        client.config_set("maxmemory-policy", "noeviction")

        assert taker.take(3) == [0, 1, 2]
        assert client.hlen(UNACKED) == 3
        for message in taker.messages:
            message.ack()
        assert client.hlen(UNACKED) == 0


@pytest.mark.parametrize(
    "element",
    [b"\xff\xfe", b"{", b"17", b'"text"', b"[]", b"{}", b'{"properties": 1}', b'{"properties": {"delivery_info": {}}}'],
)
def test_what_is_no_message_is_taken_untracked(server: RedisServer, connect: Any, put: Any, element: bytes) -> None:
    """Garbage stops no script; nothing of it stays behind, and it takes no message along."""
    taker = Taker(connect(), ["a"])
    taken: list[bytes] = []
    deliver = taker.channel._deliver_item  # the place where this project's channels report garbage

    def note(item: bytes, queue: str) -> None:
        taken.append(item)
        if item != element:
            deliver(item, queue)

    taker.channel._deliver_item = note  # as above
    with server.client() as client:
        client.lpush("lean:a", element)
        put(range(1))

        assert taker.take(1) == [0]
        assert element in taken
        assert client.hlen(UNACKED) == 1


def turn(hub: Hub, until: Callable[[], object]) -> None:
    """Turn an event loop until something holds."""
    loop = hub.create_loop()
    hub.call_repeatedly(0.01, functools.partial(int))
    for _ in range(1_000):
        if until():
            return
        next(loop)
    raise AssertionError("the event loop did not get there in 1,000 turns")


def drain_nothing(taker: Taker) -> None:
    """Look for messages once, and find none."""
    with pytest.raises(TimeoutError):
        taker.connection.drain_events(timeout=0.05)
