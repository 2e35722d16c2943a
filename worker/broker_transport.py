"""
Kombu's Redis transport, made safe against list elements that are no messages.

Kombu decodes an element before Celery sees anything, and what it raises there ends the worker or makes it reconnect for
ever. Here such an element goes to `on_broken`, and the next one is read. The consumer sets `on_broken`.
"""

import json
from collections.abc import Callable, Mapping
from queue import Empty
from typing import Any, Final, Literal

import kombu.transport
import redis
import structlog
from kombu import compression
from kombu.transport import redis as stock

from worker import lean_transport

#: What a broken connection or a refusing server raises; everything else is the message's fault.
SERVER_ERRORS: Final = (redis.RedisError, OSError)
#: The queue named for broadcasts: they come over no queue.
BROADCAST: Final = "broadcast"

#: Takes an element's bytes and the queue it came from.
OnBroken = Callable[[bytes, str], None]

_LOG = structlog.stdlib.get_logger(__name__)


class BrokenEnvelopeError(ValueError):
    """A list element is JSON but no message."""


class _SafeDelivery:
    """Add to a channel: whatever an element makes kombu raise, report the element and go on."""

    #: The element that is being delivered, as it stood in the list.
    raw_item: bytes = b""
    #: The queue that element came from.
    raw_queue: str = ""
    connection: Any
    do_restore: bool

    def _deliver_fanout_message(self, message: Any, exchange: str) -> Any:
        try:
            return super()._deliver_fanout_message(message, exchange)  # type: ignore[misc]  # the mix-in stands first
        except SERVER_ERRORS:
            raise
        except Exception:  # noqa: BLE001  # as above
            self._report(json.dumps(message, default=repr).encode(), BROADCAST)
            return True

    def close(self) -> None:
        """
        Close, giving messages back only over a connection that is still there.

        After a lost connection Celery closes a channel whose connection it has taken away already. Giving back then
        fails in a way that ends the worker; the ledger wakes those jobs, and the visibility timeout frees the rest.
        """
        if not self._has_connection:
            self.do_restore = False
        super().close()  # type: ignore[misc]  # as above

    @property
    def _has_connection(self) -> bool:
        return self.connection is not None and self.connection.client is not None

    def _connparams(self, *args: Any, **options: Any) -> Any:
        if not self._has_connection:
            # An attempt that ends after its connection acknowledges into nothing; kombu's `AttributeError` would end
            # the worker, since nobody takes it for a lost connection.
            raise redis.ConnectionError("the connection was closed")
        return super()._connparams(*args, **options)  # type: ignore[misc]  # as above

    def _report(self, raw: bytes, queue: str) -> None:
        self.connection.on_broken(raw, queue)


class _SafeLeanDelivery(_SafeDelivery):
    """The same for a lean channel, which hands over each element before anybody reads it."""

    def _deliver_item(self, item: bytes, queue: str) -> None:
        self.raw_item, self.raw_queue = item, queue
        try:
            super()._deliver_item(item, queue)  # type: ignore[misc]  # as above
        except (MemoryError, *SERVER_ERRORS):
            raise
        except Exception:  # noqa: BLE001  # an element may make the decoders raise anything
            self._report(item, queue)


class _SafeStockDelivery(_SafeDelivery):
    """The same for kombu's own channel, where only its client sees what it pops."""

    sep: str

    def _get_client(self) -> Any:
        remembering, channel = super()._get_client(), self  # type: ignore[misc]  # as above

        def make(**options: Any) -> Any:
            client = remembering(**options)
            client.parse_response = _remember(channel, client.parse_response)
            return client

        return make

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)  # type: ignore[misc]  # as above
        except (Empty, MemoryError, *SERVER_ERRORS):
            raise
        except Exception:  # noqa: BLE001  # as above
            self._report(self.raw_item, self.raw_queue)
            return True


def _remember(channel: _SafeStockDelivery, parse_response: Callable[..., Any]) -> Callable[..., Any]:
    """Keep the last element a client popped, before anybody tries to read it."""

    def parse(connection: Any, command_name: str, **options: Any) -> Any:
        reply = parse_response(connection, command_name, **options)
        if command_name == "BRPOP" and reply:
            key, channel.raw_item = reply
            channel.raw_queue = bytes(key).decode(errors="replace").rsplit(channel.sep, 1)[0]
        return reply

    return parse


class SafeTransport:
    """Add to a transport: deliver only what has the shape of a message."""

    on_broken: OnBroken
    #: Whether what nobody finished is handed out again from here; the consumer of a worker says so.
    restores = False

    def _deliver(self, message: Any, queue: str) -> None:
        _refuse_broken(message)
        super()._deliver(message, queue)  # type: ignore[misc]  # the mix-in stands before a transport


def _log_only(raw: bytes, queue: str) -> None:
    _LOG.warning("broker.element_dropped", queue=queue, size_bytes=len(raw))


def _refuse_broken(message: Any) -> None:
    """
    Refuse a message that could not be delivered, acknowledged or restored.

    A message without headers, for example, is delivered; but the first restore of it fails and drops it.
    """
    properties = message.get("properties") if isinstance(message, dict) else None
    delivery = properties.get("delivery_info") if isinstance(properties, dict) else None
    if (
        not isinstance(message, dict)
        or not isinstance(properties, dict)
        or not isinstance(delivery, dict)
        or not isinstance(message.get("headers"), dict)
        or not isinstance(message.get("body"), str | None)
        or not isinstance(properties.get("delivery_tag"), str)
        or not all(isinstance(delivery.get(name), str) for name in ("exchange", "routing_key"))
    ):
        raise BrokenEnvelopeError


class _WorkersRestore:
    """
    Hand out again what nobody finished, in workers alone.

    Stock kombu does so in whatever reads from the broker. Flower, beat and the command line read answers and events
    only: they have no right to the jobs' messages (`deploy/redis/users.acl`) and need none.
    """

    channel: Any

    def restore_visible(self, *args: Any, **options: Any) -> None:
        if self.channel.connection.restores:
            super().restore_visible(*args, **options)  # type: ignore[misc]  # the mix-in stands before a QoS


class _StockQoS(_WorkersRestore, stock.QoS): ...


class _LeanQoS(_WorkersRestore, lean_transport.LeanQoS): ...


class StockChannel(_SafeStockDelivery, lean_transport.OneClient, stock.Channel):
    """Read from a Redis or Valkey as kombu does."""

    QoS = _StockQoS


class StockSentinelChannel(_SafeStockDelivery, lean_transport.OneClient, stock.SentinelChannel):
    """Read from the master that Sentinel names as kombu does."""

    QoS = _StockQoS


class LeanChannel(_SafeLeanDelivery, lean_transport.LeanChannel):
    """Read from a Redis or Valkey with few exchanges."""

    QoS = _LeanQoS


class LeanSentinelChannel(_SafeLeanDelivery, lean_transport.LeanSentinelChannel):
    """Read from the master that Sentinel names with few exchanges."""

    QoS = _LeanQoS


class StockTransport(SafeTransport, stock.Transport):
    """Reach a Redis or Valkey as kombu does."""

    Channel = StockChannel
    on_broken = staticmethod(_log_only)


class StockSentinelTransport(SafeTransport, stock.SentinelTransport):
    """Reach the master that Sentinel names as kombu does."""

    Channel = StockSentinelChannel
    on_broken = staticmethod(_log_only)


class LeanTransport(SafeTransport, lean_transport.LeanTransport):
    """Reach a Redis or Valkey with few exchanges."""

    Channel = LeanChannel
    on_broken = staticmethod(_log_only)


class LeanSentinelTransport(SafeTransport, lean_transport.LeanSentinelTransport):
    """Reach the master that Sentinel names with few exchanges."""

    Channel = LeanSentinelChannel
    on_broken = staticmethod(_log_only)


_OF_NAME: Final[Mapping[str, tuple[type[Any], type[Any]]]] = {
    "lean": (LeanTransport, LeanSentinelTransport),
    "stock": (StockTransport, StockSentinelTransport),
}


def register(name: Literal["lean", "stock"] = "stock") -> None:
    """
    Make every Redis URL in this process use these transports from now on.

    Workers alone take messages the lean way: others read answers and events only, and have no right to more.

    By name and not by Celery's `broker_transport`: with that, kombu would speak plain text to a `rediss://` broker and
    fall back to the stock class after a Sentinel fail-over.
    """
    direct, sentinel = _OF_NAME[name]
    ours = {"redis": direct, "rediss": direct, "sentinel": sentinel}
    for scheme, transport in ours.items():
        kombu.transport.TRANSPORT_ALIASES[scheme] = f"{__name__}:{transport.__name__}"
        # Forget what the name meant before, should a connection have been made already.
        kombu.transport._transport_cache.pop(scheme, None)  # noqa: SLF001  # kombu offers no other way


def refuse_compression() -> None:
    """
    Make this process refuse compressed messages: a few bytes could become gigabytes before their size is known.

    The wire contract has no compression; such a message is quarantined as undecodable.
    """
    for content_type in compression.encoders():
        compression.register(compression.get_encoder(content_type)[0], _refuse, content_type)


def _refuse(_body: object) -> bytes:
    raise ValueError("expected a plain body, got a compressed one")
