"""
Sign a webhook and check the signature of one, after Standard Webhooks.

The id and the bytes are the same on every attempt; the timestamp is the attempt's own. While a secret is rotated both
secrets sign, so that the partner may check with either.
"""

import base64
import hmac
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import standardwebhooks
from standardwebhooks.webhooks import hmac_data

from tasks.partner_secrets import SECRET_PREFIX, SigningSecret

ID_HEADER: Final = "webhook-id"
TIMESTAMP_HEADER: Final = "webhook-timestamp"
SIGNATURE_HEADER: Final = "webhook-signature"
_VERSION: Final = "v1"
#: Digits of a Unix time in seconds, with room for a few thousand years.
_TIMESTAMP_DIGITS: Final = 11


def signed_headers(secrets: Sequence[SigningSecret], message_id: str, sent_at_s: int, body: bytes) -> dict[str, str]:
    """Return the three headers that sign the body; one signature for each secret."""
    return {
        ID_HEADER: message_id,
        TIMESTAMP_HEADER: str(sent_at_s),
        SIGNATURE_HEADER: " ".join(signature(secret, message_id, sent_at_s, body) for secret in secrets),
    }


def signature(secret: SigningSecret, message_id: str, sent_at_s: int, body: bytes) -> str:
    """Return one `v1,<base64>` signature."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        return _signature_of_bytes(secret, message_id, sent_at_s, body)
    signed: str = standardwebhooks.Webhook(secret.text).sign(message_id, datetime.fromtimestamp(sent_at_s, UTC), text)
    return signed


def is_signed(secrets: Sequence[SigningSecret], headers: Mapping[str, str], body: bytes) -> bool:
    """
    Tell whether one of the secrets made one of the signatures in the headers.

    The age of the timestamp is not judged: what is checked may have waited in a queue, and a repeat changes nothing.
    """
    found = {name.lower(): value for name, value in headers.items()}
    message_id, sent_at_s = found.get(ID_HEADER, ""), _timestamp(found.get(TIMESTAMP_HEADER, ""))
    if not message_id.isascii() or not message_id or sent_at_s is None:
        return False
    given = [value.encode() for value in found.get(SIGNATURE_HEADER, "").split(" ") if value.isascii()]
    expected = [signature(secret, message_id, sent_at_s, body).encode() for secret in secrets]
    return any(hmac.compare_digest(one, other) for one in given for other in expected)


def _timestamp(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _TIMESTAMP_DIGITS else None


def _signature_of_bytes(secret: SigningSecret, message_id: str, sent_at_s: int, body: bytes) -> str:
    # The library signs text only; the standard signs bytes, and for text both are the same.
    key = base64.b64decode(secret.text.removeprefix(SECRET_PREFIX))
    digest: bytes = hmac_data(key, f"{message_id}.{sent_at_s}.".encode() + body)
    return f"{_VERSION},{base64.b64encode(digest).decode('ascii')}"
