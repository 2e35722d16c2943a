"""
The address of a primary that Sentinel names: `sentinel://[user:password@]host[:port][/db][;sentinel://host[:port]...]`.

The form is kombu's, so that one URL serves ledger and broker. User, password and database are the server's own and
stand in the first part. Knows no client; `storage.redis_client` and beat's scheduler read it.
"""

from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

from reliability.errors import ConfigurationError

SCHEME: Final = "sentinel"
#: Where a sentinel listens unless the address says otherwise.
_DEFAULT_PORT: Final = 26_379
_FORM: Final = "sentinel://[user:password@]host[:port][/db][;sentinel://host[:port]...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class SentinelAddress:
    """Hold the sentinels to ask, and how to log in to the server that they name."""

    sentinels: tuple[tuple[str, int], ...]
    username: str | None
    password: str | None
    database: int


def is_sentinel(url: str) -> bool:
    """Tell whether the address names sentinels."""
    return urlsplit(url).scheme == SCHEME


def address_in(url: str) -> SentinelAddress:
    """
    Read an address.

    Raises:
        ConfigurationError: with the form that is expected; an address may hold a password, so it is not repeated.

    """
    first, *_ = parts = [urlsplit(part) for part in url.split(";") if part]
    try:
        sentinels = tuple((part.hostname or "", part.port or _DEFAULT_PORT) for part in parts)
        database = int(first.path.strip("/") or 0)
    except ValueError as error:
        raise ConfigurationError(f"expected an address of the form {_FORM}, got another port or database") from error
    if any(part.scheme != SCHEME or not part.hostname for part in parts):
        raise ConfigurationError(f"expected an address of the form {_FORM}, got a part that is none")
    return SentinelAddress(
        sentinels=sentinels,
        username=unquote(first.username) if first.username else None,
        password=unquote(first.password) if first.password else None,
        database=database,
    )
