"""Who hands unfinished messages of a Redis broker out again: a worker does, whoever merely looks on does not."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from kombu.connection import Connection

from worker import broker_transport

pytestmark = pytest.mark.server


@pytest.fixture(params=["lean", "stock"])
def connection(redis_url: str, request: pytest.FixtureRequest) -> Iterator[Connection]:
    """Connect with a visibility timeout of nothing, so that every unfinished message is overdue at once."""
    broker_transport.register(request.param)
    options = {"visibility_timeout": 0, "unacked_restore_throttle": 1, "unacked_mutex_expire": 1}
    with Connection(redis_url, transport_options=options) as opened:
        yield opened


@pytest.mark.parametrize("restores,waiting", [(True, 1), (False, 0)])
def test_only_a_worker_hands_messages_out_again(
    connection: Connection, raw: Any, *, restores: bool, waiting: int
) -> None:
    """A message that somebody took and never finished returns to its queue once a worker looks, and not before."""
    take_and_leave(connection)
    connection.transport.restores = restores

    look(connection)

    assert raw.llen("jobs") == waiting


def test_who_dies_while_it_looks_keeps_others_from_it_for_one_interval(connection: Connection, raw: Any) -> None:
    """The lock of a worker that was killed over it is gone when the next one looks again."""
    take_and_leave(connection)
    transport: Any = connection.transport
    transport.restores = True
    qos: Any = connection.default_channel.qos
    assert raw.lock(qos.unacked_mutex_key, timeout=qos.unacked_mutex_expire).acquire(blocking=False)

    while raw.exists(qos.unacked_mutex_key):
        assert raw.pttl(qos.unacked_mutex_key) <= 1_000
        time.sleep(0.05)
    look(connection)

    assert raw.llen("jobs") == 1


def take_and_leave(connection: Connection) -> None:
    """Put a message into a queue and take it, without an end."""
    queue = connection.SimpleQueue("jobs")
    queue.put({"job": 1})
    queue.get(timeout=5)
    queue.consumer.cancel()


def look(connection: Connection) -> None:
    """Begin to read another queue, as a worker does: it looks for unfinished messages then."""
    with connection.SimpleQueue("other") as other, pytest.raises(other.Empty):
        other.get(timeout=0.1)
