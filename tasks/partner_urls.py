"""
What a partner's URL must be before anything is sent to it.

Checked when the partner file is loaded. A name is judged again when it is resolved and connected, by the HTTP client's
address guard; here only what can be known from the text is refused.
"""

import ipaddress
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from reliability.errors import ConfigurationError, InvalidInputError
from tasks.hooks import http_url
from tasks.hooks.address_guard import AddressGuard

_LOOPBACK_ADDRESSES: Final = ("127.0.0.1", "::1")


def check_url(url: str, *, allow_plain_http: bool) -> None:
    """
    Refuse a URL that is no http(s) address, holds credentials, or lacks TLS without being loopback or allowed to.

    Raises:
        InvalidInputError: With what to change; never with the URL, which may hold credentials.

    """
    _translated("url", lambda: http_url.checked_url("url", url))
    if not allow_plain_http and http_url.travels_in_the_clear(url):
        raise InvalidInputError("url", "expected https; plain http is for loopback, or set allow_plain_http = true")


def check_proxy(url: str) -> None:
    """
    Refuse a proxy that is no plain `http://host:port`.

    Raises:
        InvalidInputError: With what to change.

    """
    _translated("proxy", lambda: http_url.checked_url("proxy", url))
    parts = urlsplit(url)
    if parts.scheme != "http" or parts.path not in {"", "/"} or parts.query:
        raise InvalidInputError("proxy", "expected http://host:port and nothing more")


def check_reachable(url: str, guard: AddressGuard) -> None:
    """
    Refuse a URL with a literal address that the guard would block at every attempt.

    Raises:
        InvalidInputError: Naming the setting that opens it.

    """
    host = urlsplit(url).hostname or ""
    addresses = _LOOPBACK_ADDRESSES if host == "localhost" else (host,)
    if all(_is_address(address) and not guard.allows(address) for address in addresses):
        problem = "its address is not public, so every delivery would be refused"
        raise InvalidInputError("url", f"{problem}; add its network to allow_private_networks if it is meant")


def _translated(field: str, check: Callable[[], object]) -> None:
    try:
        check()
    except ConfigurationError as error:
        raise InvalidInputError(field, error.problem.removeprefix(f"{field}: ")) from None


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True
