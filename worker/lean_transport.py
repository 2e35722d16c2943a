"""
A Redis transport for kombu that asks the server for little: kombu's own messages, keys and guarantees.

One script acknowledges what is done, takes what has come, up to the prefetch window, and tracks it, all in one step: a
worker that is killed loses no message. While nothing comes the server is asked nothing: it tells when a queue changes
(invalidation messages of RESP3, `CLIENT TRACKING`). Works beside stock workers on the same queues, and knows nothing of
this project. Needs Redis 6.2 or Valkey.
"""

import contextlib
import threading
from collections import deque
from collections.abc import Iterator
from functools import cached_property
from importlib import resources
from queue import Empty
from time import monotonic, time
from typing import Any, Final

import redis
from kombu.transport import redis as stock
from kombu.transport import virtual
from kombu.utils.encoding import bytes_to_str
from kombu.utils.json import loads

#: How many messages one exchange takes at most.
MOST_MESSAGES: Final = 32
#: A server that said nothing for so long is asked again, in seconds; this is also how a dead connection is found.
_ASK_AGAIN_S: Final = 5.0
#: The keys before the lists in the script, and what it returns of each message.
_OWN_KEYS: Final = 2
_PARTS: Final = 3
_TAKE: Final = resources.files(__package__).joinpath("lua/take_messages.lua").read_bytes()


class LeanQoS(stock.QoS):
    """Leave tracking to the script that takes, and acknowledging to the channel."""

    channel: Any

    def append(self, message: Any, delivery_tag: str) -> None:
        """Remember a message; one that did not come by the script is tracked as kombu does."""
        if delivery_tag == self.channel.tag_of_taken:
            virtual.QoS.append(self, message, delivery_tag)
        else:
            super().append(message, delivery_tag)  # type: ignore[no-untyped-call]  # kombu leaves it untyped

    def ack(self, delivery_tag: str) -> None:
        """Hand the acknowledgement to the channel."""
        self.channel.acknowledge(delivery_tag)
        virtual.QoS.ack(self, delivery_tag)


class LeanPoller(stock.MultiChannelPoller):
    """Look after what channels owe the server once in each turn of an event loop."""

    #: The thread of the event loop; without a loop nothing is gathered.
    loop_thread: int | None = None

    def on_poll_start(self) -> None:
        """Ask for messages where there is room, and send the acknowledgements that no question carries."""
        channels = list(self._channels)
        for channel in channels:
            channel.ask_again_if_due()
        super().on_poll_start()  # type: ignore[no-untyped-call]  # as above
        for channel in channels:
            if not channel.waits_for_answer:
                channel.send_acknowledgements()


class OneClient:
    """Keep one client in a Redis channel of kombu, which makes one for every command; stands before it as a base."""

    _kept_client: Any = None
    pool: Any

    @contextlib.contextmanager
    def conn_or_acquire(self, client: Any = None) -> Iterator[Any]:
        """Yield the channel's client, or the one that is given."""
        if client is None and (self._kept_client is None or self._kept_client.connection_pool is not self.pool):
            self._kept_client = self._create_client()  # type: ignore[attr-defined]  # the mix-in stands before a channel
        yield self._kept_client if client is None else client


class LeanReading(OneClient):
    """Make a Redis channel of kombu lean; stands before it as a base."""

    QoS = LeanQoS

    connection: Any
    connection_errors: tuple[type[Exception], ...]
    global_keyprefix: str
    priority_steps: list[int]
    sep: str
    unacked_key: str
    unacked_index_key: str
    _in_poll: Any
    _brpop_sent_at: Any
    _queue_cycle: Any
    closed: bool
    qos: Any

    def __init__(self, *args: Any, **options: Any) -> None:
        #: The tag of the message that is being delivered, if the script took it.
        self.tag_of_taken: str | None = None
        self._tags: deque[str | bytes] = deque()
        #: The tags and lists of the question that is under way.
        self._carried: list[str | bytes] = []
        self._asked: list[str] = []
        #: How many messages were asked for.
        self._room = 0
        #: The last answer was that nothing is left; the server tells when that changes.
        self._is_told = False
        super().__init__(*args, **options)

    @cached_property
    def client(self) -> Any:
        """Return the client that takes messages; it alone speaks RESP3, to be told of changes."""
        pool = self._get_pool(asynchronous=True)  # type: ignore[attr-defined]  # as above
        pool.connection_class = _told_of_changes(pool.connection_class)
        pool.connection_kwargs["protocol"] = 3
        return self.Client(connection_pool=pool)  # type: ignore[attr-defined]  # as above

    @property
    def waits_for_answer(self) -> bool:
        """Tell whether a question is under way."""
        return bool(self._in_poll) and not self._is_told

    def ask_again_if_due(self) -> None:
        """Let the next turn ask, although nobody said that something came."""
        waits_to_be_told = self._is_told and self._in_poll
        if waits_to_be_told and (self._tags or monotonic() - self._brpop_sent_at > _ASK_AGAIN_S):
            self._in_poll = None

    def acknowledge(self, delivery_tag: str) -> None:
        """Acknowledge with the next question; at once where no event loop would ask one soon."""
        self._tags.append(delivery_tag)
        cycle = self.connection and self.connection.cycle
        if not cycle or cycle.loop_thread != threading.get_ident():
            self.send_acknowledgements()

    def send_acknowledgements(self) -> None:
        """Acknowledge what waits for it, in one exchange."""
        if not self._tags:
            return
        tags = self._taken_tags()
        with self.conn_or_acquire() as client, client.pipeline() as pipe:
            pipe.zrem(self.unacked_index_key, *tags).hdel(self.unacked_key, *tags).execute()

    def _taken_tags(self) -> list[str | bytes]:
        tags: list[str | bytes] = []
        with contextlib.suppress(IndexError):
            while True:
                tags.append(self._tags.popleft())
        return tags

    def _brpop_start(self, timeout: float | None = None) -> None:  # noqa: ARG002  # kombu's name and argument
        queues = self._queue_cycle.consume(len(self.active_queues))  # type: ignore[attr-defined]  # as above
        if not queues:
            return
        name_of = self._q_for_pri  # type: ignore[attr-defined]  # as above
        self._asked = [name_of(queue, priority) for priority in self.priority_steps for queue in queues]
        self._carried = self._taken_tags()
        connection = self._in_poll = self.client.connection
        self._is_told = False
        self._brpop_sent_at = monotonic()
        estimate = self.qos.can_consume_max_estimate()
        self._room = MOST_MESSAGES if estimate is None else min(estimate, MOST_MESSAGES)
        connection.send_command(
            "EVALSHA",
            connection.script,
            _OWN_KEYS + len(self._asked),
            *(self.global_keyprefix + key for key in (self.unacked_key, self.unacked_index_key, *self._asked)),
            time(),
            self._room,
            *self._carried,
        )

    def _brpop_read(self, **_options: Any) -> bool:
        was_told, self._is_told = self._is_told, False
        connection = self.client.connection
        try:
            answer = connection.read_response(push_request=was_told)
            is_quiet = not was_told and len(answer) < _PARTS * self._room and not connection.can_read()
        except redis.exceptions.NoScriptError:
            # Somebody made the server forget its scripts.
            self._tags.extendleft(reversed(self._carried))
            self.client.script_load(_TAKE)
            raise Empty from None
        except self.connection_errors:
            connection.disconnect()
            raise
        finally:
            self._in_poll = None
            self._flush_brpop_reauth()  # type: ignore[attr-defined]  # as above
        if is_quiet:
            self._is_told, self._in_poll = True, connection
        if was_told and self.qos.can_consume():
            # Something came: ask at once, and not in the next turn of the loop.
            self._brpop_start()
        if was_told or not answer:
            raise Empty
        for place in range(0, len(answer), _PARTS):
            self._deliver_taken(*answer[place : place + _PARTS])
        return True

    def _deliver_taken(self, place: int, tag: bytes, item: bytes) -> None:
        queue = self._asked[place].rsplit(self.sep, 1)[0]
        self._queue_cycle.rotate(queue)
        self.tag_of_taken = tag.decode(errors="replace") or None
        try:
            self._deliver_item(item, queue)
        finally:
            if tag and self.tag_of_taken not in self.qos._delivered:  # noqa: SLF001  # kombu offers no other way
                # Its consumer wants no acknowledgements, or it could not be delivered.
                self._tags.append(tag)
            self.tag_of_taken = None

    def _deliver_item(self, item: bytes, queue: str) -> None:
        self.connection._deliver(loads(bytes_to_str(item)), queue)  # noqa: SLF001  # as above

    def close(self) -> None:
        """Acknowledge what waits for it, then close."""
        if self._is_told:
            self._in_poll = None
        if not self.closed:
            with contextlib.suppress(*self.connection_errors):
                self.send_acknowledgements()
        super().close()  # type: ignore[misc]  # the mix-in stands before a channel


def _told_of_changes(connection_class: type[Any]) -> type[Any]:
    """Return a class of connections that make ready for the script: load it, and ask to be told of changes."""

    class Told(connection_class):  # type: ignore[misc]  # the base depends on TLS and Sentinel
        script: bytes

        def on_connect_check_health(self, check_health: bool = True) -> None:  # noqa: FBT001,FBT002  # redis-py's own
            super().on_connect_check_health(check_health)
            self.send_command("SCRIPT", "LOAD", _TAKE, check_health=False)
            self.script = self.read_response()
            self.send_command("CLIENT", "TRACKING", "ON", check_health=False)
            self.read_response()

    return Told


class LeanChannel(LeanReading, stock.Channel):
    """Read from a Redis or Valkey."""


class LeanSentinelChannel(LeanReading, stock.SentinelChannel):
    """Read from the master that Sentinel names."""


class LeanPolling:
    """Make a Redis transport of kombu lean; stands before it as a base."""

    cycle: Any

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.cycle = LeanPoller()  # type: ignore[no-untyped-call]  # as above

    def register_with_event_loop(self, connection: Any, loop: Any) -> None:
        """Begin to work with the event loop of this thread."""
        self.cycle.loop_thread = threading.get_ident()
        super().register_with_event_loop(connection, loop)  # type: ignore[misc]  # as above


class LeanTransport(LeanPolling, stock.Transport):
    """Reach a Redis or Valkey."""

    Channel = LeanChannel


class LeanSentinelTransport(LeanPolling, stock.SentinelTransport):
    """Reach the master that Sentinel names."""

    Channel = LeanSentinelChannel
