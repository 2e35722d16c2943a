"""
Make clients of the state server, and turn their errors into ours.

Every client has time limits, notices dead connections, and never sends a command twice: a write whose answer was lost
may have happened. Only the opening of a connection is tried again.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import redis
from redis.backoff import ExponentialBackoff, NoBackoff
from redis.retry import Retry

from reliability.errors import StorageUnavailableError

#: Longest wait for an answer: longer than any script runs, shorter than any lease, in seconds.
SOCKET_TIMEOUT_S = 10
#: Longest wait for a connection, in seconds.
CONNECT_TIMEOUT_S = 5
#: A connection that was idle for longer is asked whether it lives before it is used, in seconds.
HEALTH_CHECK_INTERVAL_S = 30
#: How often the opening of a connection is tried again, and the bounds of the wait between two tries, in seconds.
_CONNECT_RETRIES = 2
_FIRST_CONNECT_WAIT_S = 0.05
_LONGEST_CONNECT_WAIT_S = 0.5


class _PatientPool(redis.ConnectionPool):
    """Try again to open a connection: nothing has been sent by then, so nothing can happen twice."""

    def get_connection(self, *args: Any, **options: Any) -> Any:
        waits = ExponentialBackoff(cap=_LONGEST_CONNECT_WAIT_S, base=_FIRST_CONNECT_WAIT_S)
        retry = Retry(waits, _CONNECT_RETRIES, supported_errors=(redis.ConnectionError, redis.TimeoutError))
        return retry.call_with_retry(
            lambda: super(_PatientPool, self).get_connection(*args, **options),
            lambda _error: None,
            is_retryable=lambda error: not isinstance(error, redis.AuthenticationError),
        )


def connect(
    url: str, *, timeout_s: float = SOCKET_TIMEOUT_S, connect_timeout_s: float = CONNECT_TIMEOUT_S
) -> redis.Redis:
    """
    Return a client of the server at a `redis://`, `rediss://` or `unix://` address; connects when first used.

    Replies are bytes. The client may be shared by threads; a forked process makes its own connections.
    """
    pool = _PatientPool.from_url(
        url,
        protocol=2,
        decode_responses=False,
        socket_timeout=timeout_s,
        socket_connect_timeout=connect_timeout_s,
        health_check_interval=HEALTH_CHECK_INTERVAL_S,
        retry=Retry(NoBackoff(), 0),
        **({} if url.startswith("unix:") else {"socket_keepalive": True}),
    )
    return redis.Redis.from_pool(pool)


@contextlib.contextmanager
def translated(operation: str, key: str) -> Iterator[None]:
    """Turn what the client raises inside the block into `StorageUnavailableError`."""
    try:
        yield
    except redis.RedisError as error:
        raise StorageUnavailableError(operation, key) from error
