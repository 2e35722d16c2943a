"""
What is known of one HTTP exchange with a partner once it ended, well or not.

A hook fills it in; `partner_rules` and `as2_rules` read it. The body and the detail are payload: they are hashed or
looked at, never shown.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

_FIRST_SUCCESS = 200
_LAST_SUCCESS = 299


class Phase(StrEnum):
    """Name the phase the exchange was in when it ended."""

    #: Our own guard refused the address; nothing left.
    POLICY = "policy"
    DNS = "dns"
    CONNECT = "connect"
    TLS = "tls"
    #: Connected, the request not complete yet.
    SENDING = "sending"
    #: The whole request went out; no status line came.
    SENT = "sent"
    #: The status and the headers came, the body did not come to its end.
    STATUS = "status"
    #: The body came to its end or was stopped at the cap.
    BODY = "body"


#: Phases that end with a status.
ANSWERED = frozenset({Phase.STATUS, Phase.BODY})


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """Hold the evidence of one exchange."""

    phase: Phase
    #: When it ended: a Retry-After date counts from here.
    ended_at: datetime
    status: int | None = None
    #: Names in lower case.
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: The beginning of the body, up to the cap.
    body: bytes = field(default=b"", repr=False)
    #: The body is all there: it was neither cut at the cap nor by the deadline.
    body_is_whole: bool = True
    #: SHA-256 hex of the body that was read.
    body_sha256: str = ""
    #: What went wrong in the words of the library that met it; only ever hashed.
    detail: str = field(default="", repr=False)

    @property
    def is_success(self) -> bool:
        """Tell whether a 2xx status came."""
        return self.status is not None and _FIRST_SUCCESS <= self.status <= _LAST_SUCCESS
