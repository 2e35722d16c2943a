"""Who hands unfinished messages of a Redis broker out again: a worker does, whoever merely looks on does not."""

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
    with Connection(redis_url, transport_options={"visibility_timeout": 0, "unacked_restore_throttle": 1}) as opened:
        yield opened


@pytest.mark.parametrize("restores,waiting", [(True, 1), (False, 0)])
def test_only_a_worker_hands_messages_out_again(
    connection: Connection, raw: Any, *, restores: bool, waiting: int
) -> None:
    """A message that somebody took and never finished returns to its queue once a worker looks, and not before."""
    queue = connection.SimpleQueue("jobs")
    queue.put({"job": 1})
    queue.get(timeout=5)
    queue.consumer.cancel()
    connection.transport.restores = restores

    with connection.SimpleQueue("other") as other, pytest.raises(other.Empty):
        other.get(timeout=0.1)

    assert raw.llen("jobs") == waiting
