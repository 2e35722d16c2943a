"""
What goes into one HTTP exchange and what is known afterwards, whichever way it ended.

An exchange never raises for what a peer does: it tells how far it got, so that the hook can say whether the peer may
have acted. Bodies and headers are left out of every repr, since they are payload.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from reliability.errors import InvalidInputError


class Phase(StrEnum):
    """Say where an exchange stood when it ended."""

    #: Refused before any connection: the address is one we do not connect to.
    POLICY = "policy"
    #: Looking for an address.
    DNS = "dns"
    CONNECT = "connect"
    #: In the TLS handshake.
    TLS = "tls"
    #: Connected; the request was not out completely.
    SENDING = "sending"
    #: The whole request was handed to the network; no status came back.
    SENT = "sent"
    #: Status and headers are here; the body was not complete.
    STATUS = "status"
    #: The body is here, up to the cap.
    BODY = "body"


#: In these phases the peer cannot have the whole request.
_NOT_SENT = frozenset({Phase.POLICY, Phase.DNS, Phase.CONNECT, Phase.TLS, Phase.SENDING})


class ErrorKind(StrEnum):
    """Name what ended an exchange before its time."""

    BLOCKED = "blocked"
    NAME_NOT_RESOLVED = "name_not_resolved"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    CERTIFICATE = "certificate"
    TLS = "tls"
    RESET = "reset"
    TIMEOUT = "timeout"
    #: What came back is no HTTP.
    PROTOCOL = "protocol"


class Method(StrEnum):
    """Name what a request does."""

    POST = "POST"
    #: Asks and changes nothing; its body is not sent.
    GET = "GET"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """Hold one request and the time it may take in all, from the name's resolution to the end of the response body."""

    url: str
    method: Method = Method.POST
    body: bytes = field(default=b"", repr=False)
    headers: Mapping[str, str] = field(repr=False)
    total_deadline_s: float

    def __post_init__(self) -> None:
        if self.total_deadline_s <= 0:
            raise InvalidInputError("total_deadline_s", f"expected more than 0 s, got: {self.total_deadline_s}")
        for name, value in self.headers.items():
            if not is_header_safe(name) or not is_header_safe(value):
                raise InvalidInputError("headers", "expected names and values of printable ASCII on one line")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpExchange:
    """Hold what is known after an exchange: a status if one came, and where it ended if it ended early."""

    phase: Phase
    #: None where the whole response came, or as much of it as is kept.
    error: ErrorKind | None
    status: int | None = None
    #: The kept headers, names in lower case, values cut to a bound.
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: The body up to the cap, as it came: nothing is decompressed.
    body: bytes = field(default=b"", repr=False)
    #: SHA-256 hex of `body`.
    body_sha256: str
    #: The peer had more to say than is kept; the connection was closed.
    body_truncated: bool = False
    elapsed_ms: int

    @property
    def not_sent(self) -> bool:
        """Tell whether it is certain that the peer did not get the whole request."""
        return self.status is None and self.phase in _NOT_SENT


def is_header_safe(text: str) -> bool:
    """Tell whether a text can stand in a header: printable ASCII, so it does not end the line."""
    return text.isascii() and text.isprintable()
