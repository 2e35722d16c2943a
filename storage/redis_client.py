"""
Make clients of the state server, and turn their errors into ours.

Every client has time limits, notices dead connections, and never sends a command twice: a write whose answer was lost
may have happened. Only the opening of a connection is tried again.
"""

import contextlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel, SentinelConnectionPool

from reliability.errors import StorageRefusedError, StorageUnavailableError
from storage import sentinel_address

#: How sentinels call the primary unless they are told otherwise.
DEFAULT_MASTER = "mymaster"
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


class _Patient:
    """Add to a pool: try again to open a connection; nothing has been sent by then, so nothing can happen twice."""

    def get_connection(self, *args: Any, **options: Any) -> Any:
        waits_s = iter(_CONNECT_WAITS_S)
        while True:
            try:
                return super().get_connection(*args, **options)  # type: ignore[misc]  # it stands before a pool
            except redis.AuthenticationError:
                raise
            except (redis.ConnectionError, redis.TimeoutError):
                wait_s = next(waits_s, None)
                if wait_s is None:
                    raise
                time.sleep(wait_s)


class _PatientPool(_Patient, redis.ConnectionPool):
    """Connect to one server."""


class _PatientSentinelPool(_Patient, SentinelConnectionPool):
    """Ask Sentinel for the primary with each connection that is opened, so that a promoted replica is followed."""


def connect(
    url: str,
    *,
    timeout_s: float = SOCKET_TIMEOUT_S,
    connect_timeout_s: float = CONNECT_TIMEOUT_S,
    ca_file: Path | None = None,
    sentinel_master: str = DEFAULT_MASTER,
) -> redis.Redis:
    """
    Return a client of the server at a `redis://`, `rediss://`, `unix://` or `sentinel://` address.

    It connects when it is first used. Replies are bytes. The client may be shared by threads; a forked process makes
    its own connections. The certificate of a `rediss://` server is checked against `ca_file`, or the system's
    authorities. Behind Sentinel it talks to the primary of that name.
    """
    options = {
        "protocol": 2,
        "decode_responses": False,
        "socket_timeout": timeout_s,
        "socket_connect_timeout": connect_timeout_s,
        "health_check_interval": HEALTH_CHECK_INTERVAL_S,
        "retry": Retry(NoBackoff(), 0),
        **({} if url.startswith("unix:") else {"socket_keepalive": True}),
        **({"ssl_ca_certs": str(ca_file)} if ca_file and url.startswith("rediss:") else {}),
    }
    if sentinel_address.is_sentinel(url):
        return redis.Redis.from_pool(_sentinel_pool(url, sentinel_master, connect_timeout_s, options))
    return redis.Redis.from_pool(_PatientPool.from_url(url, **options))


def _sentinel_pool(
    url: str, master: str, connect_timeout_s: float, options: Mapping[str, Any]
) -> SentinelConnectionPool:
    address = sentinel_address.address_in(url)
    # A sentinel answers from memory: one that takes longer than a connection may is passed over for the next.
    limits = {"socket_timeout": connect_timeout_s, "socket_connect_timeout": connect_timeout_s}
    sentinels = Sentinel(address.sentinels, sentinel_kwargs=limits)  # type: ignore[no-untyped-call]  # left untyped
    login = {"username": address.username, "password": address.password, "db": address.database}
    return _PatientSentinelPool(master, sentinels, **login, **options)  # type: ignore[no-untyped-call]  # as above


class Conversation:
    """Send commands as they come and read their replies at the end: the server works while the next is made."""

    def __init__(self, client: redis.Redis) -> None:
        self._pool = client.connection_pool
        self._connection: Any = None
        self._unanswered = 0

    def send(self, *command: str | bytes | int) -> None:
        """Send a command. The first opens the connection and makes sure that it lives."""
        if self._connection is None:
            self._connection = self._pool.get_connection()
        self._connection.send_command(*command, check_health=not self._unanswered)
        self._unanswered += 1

    def replies(self) -> list[Any]:
        """Return the replies in order; a refused command has its error in its place."""
        found: list[Any] = []
        for _ in range(self._unanswered):
            try:
                found.append(self._connection.read_response())
            except redis.ResponseError as error:
                found.append(error)
            self._unanswered -= 1
        return found

    def close(self) -> None:
        """Give the connection back; one with unread replies is closed."""
        if self._connection is not None:
            if self._unanswered:
                self._connection.disconnect()
            self._pool.release(self._connection)


def conversation(client: redis.Redis) -> contextlib.closing[Conversation]:
    """Return a conversation with the server, closed at the end of the block."""
    return contextlib.closing(Conversation(client))


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
