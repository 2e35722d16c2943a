"""
Make clients of the state server, and turn their errors into ours.

Every client has time limits, notices dead connections, and never sends a command twice: a write whose answer was lost
may have happened. Only the opening of a connection is tried again.
"""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from reliability.errors import StorageRefusedError, StorageUnavailableError

#: Longest wait for an answer: longer than any script runs, shorter than any lease, in seconds.
SOCKET_TIMEOUT_S = 10
#: Longest wait for a connection, in seconds.
CONNECT_TIMEOUT_S = 5
#: A connection that was idle for longer is asked whether it lives before it is used, in seconds.
HEALTH_CHECK_INTERVAL_S = 30
#: The waits before the opening of a connection is tried again, in seconds; then it is given up.
_CONNECT_WAITS_S = (0.05, 0.2)
#: What a script's error says when the server's ACL stopped a command inside it.
_REFUSED_IN_SCRIPT = "ACL failure in script"


class _PatientPool(redis.ConnectionPool):
    """Try again to open a connection: nothing has been sent by then, so nothing can happen twice."""

    def get_connection(self, *args: Any, **options: Any) -> Any:
        waits_s = iter(_CONNECT_WAITS_S)
        while True:
            try:
                return super().get_connection(*args, **options)
            except redis.AuthenticationError:
                raise
            except (redis.ConnectionError, redis.TimeoutError):
                wait_s = next(waits_s, None)
                if wait_s is None:
                    raise
                time.sleep(wait_s)


def connect(
    url: str,
    *,
    timeout_s: float = SOCKET_TIMEOUT_S,
    connect_timeout_s: float = CONNECT_TIMEOUT_S,
    ca_file: Path | None = None,
) -> redis.Redis:
    """
    Return a client of the server at a `redis://`, `rediss://` or `unix://` address; connects when first used.

    Replies are bytes. The client may be shared by threads; a forked process makes its own connections. The certificate
    of a `rediss://` server is checked against `ca_file`, or the system's authorities.
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
        **({"ssl_ca_certs": str(ca_file)} if ca_file and url.startswith("rediss:") else {}),
    )
    return redis.Redis.from_pool(pool)


@contextlib.contextmanager
def translated(operation: str, key: str) -> Iterator[None]:
    """Turn what the client raises inside the block into `StorageUnavailableError`, and a refusal into its own kind."""
    try:
        yield
    except redis.RedisError as error:
        kind = StorageRefusedError if _is_refusal(error) else StorageUnavailableError
        raise kind(operation, key) from error


def _is_refusal(error: redis.RedisError) -> bool:
    """Tell whether the server knows this user not, or does not let it."""
    refusals = (redis.AuthenticationError, redis.exceptions.NoPermissionError)
    return isinstance(error, refusals) or _REFUSED_IN_SCRIPT in str(error)
