"""
The message a producer wants delivered to a partner, as it stands on the wire and in the ledger.

Decoding refuses what the contract does not name. The canonical bytes are what is stored, and every attempt sends the
body they hold. Sizes and the partner's own list of allowed headers are checked where messages are admitted, not here.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self

import pydantic
import pydantic_core

from reliability import canonical, fields, reading
from reliability.errors import InvalidInputError

REQUEST_SCHEMA: Final = "chio.deliver.request.v1"

#: Names the sender or the HTTP connection sets itself; a producer that could set them could forge a signature.
RESERVED_HEADERS = frozenset(
    {
        "accept-encoding",
        "authorization",
        "connection",
        "content-length",
        "content-type",
        "cookie",
        "date",
        "expect",
        "host",
        "idempotency-key",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
        "webhook-id",
        "webhook-signature",
        "webhook-timestamp",
    }
)

_REQUIRED = frozenset({"schema", "message_id", "partner_id", "content_type", "created_at"})
_OPTIONAL = frozenset({"body", "body_base64", "headers", "expires_at"})
#: What a request without surprises holds, as fields, and how many texts are among them.
_ALWAYS = frozenset({"schema_tag", "message_id", "partner_id", "content_type", "body", "created_at"})
_TEXTS = 5
_HEADER_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
# Visible ASCII with single spaces and tabs inside: nothing that ends a header line or changes under trimming.
_HEADER_VALUE = re.compile(r"[!-~]([ \t!-~]{0,1022}[!-~])?")

#: Sent as a header value (`webhook-id`) and part of the job id.
Identifier = Annotated[str, pydantic.Field(pattern=r"^[!-~]{1,200}$")]
#: Unix seconds that a dead letter can carry: past 2^53 - 1 a number has no canonical form.
UnixSeconds = Annotated[int, pydantic.Field(ge=0, le=canonical.MAX_SAFE_INTEGER)]


class DeliveryRequest(pydantic.BaseModel):
    """Hold one message on its way to one partner."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", strict=True)

    #: Named `schema` on the wire and in the constructor; pydantic keeps that attribute name for itself.
    schema_tag: Literal["chio.deliver.request.v1"] = pydantic.Field(default=REQUEST_SCHEMA, alias="schema")
    message_id: Identifier
    partner_id: Identifier
    content_type: Annotated[str, pydantic.Field(pattern=r"^[!-~]+(; ?[!-~]+)*$", max_length=200)]
    #: Left out of the repr: a body is payload and must not reach a log.
    body: bytes = pydantic.Field(repr=False)
    headers: Mapping[str, str] = pydantic.Field(default_factory=dict, repr=False)
    created_at: UnixSeconds
    expires_at: UnixSeconds | None = None

    @pydantic.field_validator("headers")
    @classmethod
    def _check_headers(cls, headers: Mapping[str, str]) -> Mapping[str, str]:
        for name, value in headers.items():
            _check_header(name, value)
        return headers

    @pydantic.model_validator(mode="after")
    def _check_expiry(self) -> Self:
        if self.expires_at is not None and self.expires_at <= self.created_at:
            raise _refused("expected expires_at to be later than created_at")
        return self

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """
        Read a request.

        Raises:
            InvalidInputError: With the field that is wrong and the kind of value it holds, never the value.

        """
        at_once = reading.read_at_once(cls, text, _quotes)
        return at_once or cls.from_wire(canonical.strict_json(text))

    @classmethod
    def from_wire(cls, value: object) -> Self:
        """
        Read a request that is decoded JSON already.

        Raises:
            InvalidInputError: As `from_json`.

        """
        found = dict(fields.members("delivery", value, _REQUIRED, _OPTIONAL))
        body = _body(found)
        facts = {key: entry for key, entry in found.items() if key not in {"body", "body_base64"}}
        try:
            return cls.model_validate({**facts, "body": body})
        except pydantic.ValidationError as error:
            raise fields.from_validation("delivery", error) from None

    def to_wire(self) -> dict[str, object]:
        """Return the JSON form: the body as text where it is UTF-8, else as base64; what is absent is left out."""
        wire: dict[str, object] = {
            "schema": self.schema_tag,
            "message_id": self.message_id,
            "partner_id": self.partner_id,
            "content_type": self.content_type,
            "created_at": self.created_at,
            **_body_to_wire(self.body),
        }
        if self.headers:
            wire["headers"] = dict(self.headers)
        if self.expires_at is not None:
            wire["expires_at"] = self.expires_at
        return wire

    def canonical_json(self) -> bytes:
        """Return the bytes the ledger keeps; requests with the same content give the same bytes."""
        return canonical.canonical_json(self.to_wire())

    @property
    def job_id(self) -> str:
        """Return the id of this delivery in the ledger and in a dead letter."""
        return delivery_job_id(self.partner_id, self.message_id)


def _quotes(read: DeliveryRequest) -> int | None:
    """Count the quotation marks of a request: of its names, of its five texts, and of its headers."""
    given = read.model_fields_set
    # The parser reads -0 as 0, and fills in what is missing.
    if not read.created_at or not given >= _ALWAYS:
        return None
    return 2 * (len(given) + _TEXTS + 2 * len(read.headers))


def delivery_job_id(partner_id: str, message_id: str) -> str:
    """Return `delivery:<partner_id>:<message_id>`, with `%` and `:` inside the two ids percent-encoded."""
    return f"delivery:{_quoted(partner_id)}:{_quoted(message_id)}"


def _quoted(identifier: str) -> str:
    return identifier.replace("%", "%25").replace(":", "%3A")


def _check_header(name: str, value: str) -> None:
    if not _HEADER_NAME.fullmatch(name):
        raise _refused("expected header names of lower-case letters, digits and hyphens, at most 64")
    if name in RESERVED_HEADERS:
        raise _refused(f"expected no header {name}, which the sender sets itself")
    if not _HEADER_VALUE.fullmatch(value):
        raise _refused(f"expected header {name} to be 1 to 1024 visible ASCII characters on one line")


def _refused(problem: str) -> pydantic_core.PydanticCustomError:
    # A plain ValueError would come out as "Value error, ...".
    return pydantic_core.PydanticCustomError("refused", "{problem}", {"problem": problem})


def _body(found: Mapping[str, object]) -> bytes:
    if ("body" in found) == ("body_base64" in found):
        raise InvalidInputError("delivery", "expected exactly one of body and body_base64")
    if "body" in found:
        return fields.text("body", found["body"]).encode()
    encoded = fields.text("body_base64", found["body_base64"])
    try:
        return base64.b64decode(encoded.encode(), validate=True)
    except binascii.Error:
        raise InvalidInputError("body_base64", "expected standard base64 with padding, got something else") from None


def _body_to_wire(body: bytes) -> dict[str, str]:
    try:
        return {"body": body.decode("utf-8")}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode("ascii")}
