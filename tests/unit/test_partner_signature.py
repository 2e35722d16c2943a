"""Signatures after Standard Webhooks, checked against the library itself."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from tasks.hooks import webhook_signature
from tasks.hooks.webhook_signature import is_signed, signed_headers
from tasks.partner_secrets import SigningSecret
from tests.support.partner_file import NEXT_SECRET, SECRET
from worker.simulators import partner_signature
from worker.simulators.partner_log import Signature

CURRENT = SigningSecret(reference="env:A", text=SECRET)
NEXT = SigningSecret(reference="env:B", text=NEXT_SECRET)
BODY = b'{"n":1}'
AT_S = 1_700_000_000


def now_s() -> int:
    """Return the present, which the library compares timestamps with."""
    return int(datetime.now(UTC).timestamp())


def test_library_accepts_what_we_sign() -> None:
    """A receiver with the library verifies id, timestamp and body."""
    headers = signed_headers([CURRENT], "msg_1", now_s(), BODY)

    assert Webhook(SECRET).verify(BODY, headers) == {"n": 1}


def test_known_signature() -> None:
    """Id, timestamp and body give the same bytes for ever."""
    headers = signed_headers([CURRENT], "msg_1", AT_S, BODY)

    assert headers == {
        "webhook-id": "msg_1",
        "webhook-timestamp": "1700000000",
        "webhook-signature": Webhook(SECRET).sign("msg_1", datetime.fromtimestamp(AT_S, UTC), BODY.decode()),
    }


@pytest.mark.parametrize("secret", [SECRET, NEXT_SECRET])
def test_both_secrets_sign_during_a_rotation(secret: str) -> None:
    """A partner may check with the old secret or with the new one."""
    headers = signed_headers([NEXT, CURRENT], "msg_1", now_s(), BODY)

    Webhook(secret).verify(BODY, headers)
    assert len(headers["webhook-signature"].split(" ")) == 2


def test_changed_body_does_not_verify() -> None:
    """The signature covers every byte of the body."""
    headers = signed_headers([CURRENT], "msg_1", now_s(), BODY)

    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(b'{"n":2}', headers)


@given(body=st.binary(max_size=200))
def test_any_bytes_are_signed(body: bytes) -> None:
    """Text goes through the library and other bytes past it, and a receiver tells no difference."""
    headers = signed_headers([CURRENT], "msg_1", now_s(), body)

    assert is_signed([CURRENT], headers, body)
    assert partner_signature.check([SECRET], headers, body) is Signature.VALID


def test_bytes_and_text_are_signed_alike() -> None:
    """The way past the library gives the library's signature."""
    past_the_library = webhook_signature._signature_of_bytes(CURRENT, "m", AT_S, BODY)

    assert past_the_library == webhook_signature.signature(CURRENT, "m", AT_S, BODY)


def test_old_signature_still_counts() -> None:
    """What waited in a queue is not refused for its age, and header names come in either case."""
    headers = {name.title(): value for name, value in signed_headers([CURRENT], "m", AT_S, BODY).items()}

    assert is_signed([NEXT, CURRENT], headers, BODY)


@pytest.mark.parametrize(
    "changes",
    [
        {"webhook-id": "other"},
        {"webhook-id": ""},
        {"webhook-timestamp": "1700000001"},
        {"webhook-timestamp": "soon"},
        {"webhook-timestamp": "9" * 30},
        {"webhook-timestamp": "٣"},
        {"webhook-signature": ""},
        {"webhook-signature": "v1,AAAA"},
        {"webhook-signature": "v1"},
        {"webhook-signature": "v1,\ud800"},
        {"webhook-id": "\ud800"},
    ],
)
def test_forged_headers_do_not_count(changes: dict[str, str]) -> None:
    """A header that was changed or is none makes no signature."""
    headers = signed_headers([CURRENT], "m", AT_S, BODY) | changes

    assert not is_signed([CURRENT], headers, BODY)


def test_other_secret_does_not_count() -> None:
    """A signature of somebody else's secret is none."""
    assert not is_signed([NEXT], signed_headers([CURRENT], "m", AT_S, BODY), BODY)


@pytest.mark.parametrize("headers", [{}, {"webhook-id": "m"}, {"webhook-signature": "nonsense"}])
def test_receiver_refuses_what_nobody_signed(headers: dict[str, str]) -> None:
    """The simulated receiver finds missing and garbled headers invalid."""
    assert partner_signature.check([SECRET], headers, BODY) is Signature.INVALID


def test_receiver_without_a_secret_does_not_check() -> None:
    """Where the simulator knows no secret, it says so."""
    assert partner_signature.check([], {}, BODY) is Signature.UNCHECKED
