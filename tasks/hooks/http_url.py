"""
Which URLs a hook accepts, checked once when it is made so that a wrong one stops the start and not a delivery.

The address behind the URL is not judged here but when it is connected, by `address_guard`.
"""

import ipaddress
from urllib.parse import SplitResult, urlsplit

from reliability.errors import ConfigurationError

_SCHEMES = frozenset({"http", "https"})
_MAX_URL_LENGTH = 2048


def checked_url(setting: str, url: str) -> str:
    """
    Return the URL if requests can be sent to it; `setting` is named in the error, the URL's secrets are not.

    Raises:
        ConfigurationError: With what is wrong and what to do.

    """
    if not url.isascii() or not url.isprintable() or " " in url or len(url) > _MAX_URL_LENGTH:
        raise ConfigurationError(
            f"{setting}: expected a URL of visible ASCII, at most {_MAX_URL_LENGTH} long; encode it"
        )
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise ConfigurationError(
            f"{setting}: expected a URL such as https://host:port/path, got another text"
        ) from error
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise ConfigurationError(f"{setting}: expected a URL that begins with https:// or http:// and names a host")
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError(
            f"{setting}: expected a URL without user and password; put the secret into its setting"
        )
    if parts.fragment:
        raise ConfigurationError(f"{setting}: expected a URL without #fragment, which is never sent; remove it")
    return url


def travels_in_the_clear(url: str) -> bool:
    """Tell whether what is sent to this URL crosses a network unencrypted: no TLS, and not to this host itself."""
    parts = urlsplit(url)
    return parts.scheme != "https" and not _is_loopback(parts)


def _is_loopback(parts: SplitResult) -> bool:
    host = parts.hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
