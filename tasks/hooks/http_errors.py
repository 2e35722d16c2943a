"""
What the HTTP library raises, translated to the few kinds the project knows.

Called by `http_client` alone; an exception's text never leaves it, since it may hold a URL or a piece of a response.
"""

import errno
import ssl

import aiohttp

from tasks.hooks.address_guard import AddressBlockedError
from tasks.hooks.http_exchange import ErrorKind

#: Everything an exchange may end with; anything else is a bug and passes through.
RAISED = (aiohttp.ClientError, OSError, ssl.CertificateError)

_BY_ERRNO = {
    errno.ECONNREFUSED: ErrorKind.REFUSED,
    errno.ECONNRESET: ErrorKind.RESET,
    errno.ECONNABORTED: ErrorKind.RESET,
    errno.EPIPE: ErrorKind.RESET,
}


#: Looked at in this order: most of the classes are subclasses of one another.
_BY_CLASS: tuple[tuple[type[BaseException], ErrorKind], ...] = (
    (AddressBlockedError, ErrorKind.BLOCKED),
    # An URL that only the library finds wrong, such as a host that is a number in disguise.
    (aiohttp.InvalidURL, ErrorKind.BLOCKED),
    (aiohttp.ClientConnectorCertificateError, ErrorKind.CERTIFICATE),
    (ssl.CertificateError, ErrorKind.CERTIFICATE),
    (aiohttp.ClientSSLError, ErrorKind.TLS),
    (ssl.SSLError, ErrorKind.TLS),
    (aiohttp.ClientConnectorDNSError, ErrorKind.NAME_NOT_RESOLVED),
    (aiohttp.ClientConnectorError, ErrorKind.UNREACHABLE),
    (aiohttp.ClientResponseError, ErrorKind.PROTOCOL),
)


def kind_of(error: BaseException) -> ErrorKind:
    """Name what ended the exchange."""
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, AddressBlockedError):
        return ErrorKind.BLOCKED
    kind = next((kind for known, kind in _BY_CLASS if isinstance(error, known)), None)
    if kind not in {None, ErrorKind.UNREACHABLE}:
        return kind
    if isinstance(error, OSError) and error.errno is not None:
        return _BY_ERRNO.get(error.errno, kind or ErrorKind.RESET)
    return kind or (ErrorKind.TIMEOUT if isinstance(error, TimeoutError) else ErrorKind.RESET)
