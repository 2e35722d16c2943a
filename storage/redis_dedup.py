"""Deduplication on Redis: one atomic `SET key value NX EX ttl`, shared by every process."""

from datetime import timedelta

import redis

from reliability.errors import InvalidInputError
from storage import redis_client
from storage.keys import DEFAULT_NAMESPACE, Key, Keys
from storage.options import DEFAULT_DEDUP_TTL

_SEEN = b"1"
_SECOND = timedelta(seconds=1)


class RedisDedupStorage:
    """
    Remember keys for `ttl`, in whole seconds.

    Raises:
        InvalidInputError: The ttl is under a second or has a fraction of one.

    """

    def __init__(
        self, client: redis.Redis, ttl: timedelta = DEFAULT_DEDUP_TTL, *, namespace: str = DEFAULT_NAMESPACE
    ) -> None:
        if ttl < _SECOND or ttl % _SECOND:
            raise InvalidInputError("ttl", f"expected whole seconds, one or more, got: {ttl}")
        self._client = client
        self._keys = Keys(namespace)
        self._ttl_s = ttl // _SECOND

    def first_seen(self, key: str) -> bool:
        """
        Mark the key and tell whether this call was the first to do so.

        Raises:
            StorageUnavailableError: The server did not answer; whether the key is new is not known.

        """
        with redis_client.translated("first_seen", key):
            return bool(self._client.set(self._keys.of(Key.DEDUP, key), _SEEN, nx=True, ex=self._ttl_s))
