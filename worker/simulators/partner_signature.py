"""
Whether a request's signature holds, as an independent receiver finds out.

It uses the library of the standard, not the sender's code, so that both would have to be wrong in the same way.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence

import standardwebhooks

from worker.simulators.partner_log import Signature

_PREFIX = "whsec_"


def check(secrets: Sequence[str], headers: Mapping[str, str], body: bytes) -> Signature:
    """Check the signature with each secret; one that fits is enough, as during a rotation."""
    if not secrets:
        return Signature.UNCHECKED
    return Signature.VALID if any(_holds(secret, headers, body) for secret in secrets) else Signature.INVALID


def _holds(secret: str, headers: Mapping[str, str], body: bytes) -> bool:
    try:
        standardwebhooks.Webhook(secret).verify(body, dict(headers), json_parse=False)
    except standardwebhooks.WebhookVerificationError:
        return False
    except UnicodeDecodeError:
        return _holds_for_bytes(secret, headers, body)
    except ValueError:
        return False  # a signature header that is none: no comma, or no base64
    return True


def _holds_for_bytes(secret: str, headers: Mapping[str, str], body: bytes) -> bool:
    # The library reads text only; the standard signs bytes.
    signed = f"{headers.get('webhook-id')}.{headers.get('webhook-timestamp')}.".encode() + body
    digest = hmac.digest(base64.b64decode(secret.removeprefix(_PREFIX)), signed, hashlib.sha256)
    expected = f"v1,{base64.b64encode(digest).decode('ascii')}"
    return expected in headers.get("webhook-signature", "").split(" ")
