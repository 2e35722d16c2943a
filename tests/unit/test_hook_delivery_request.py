"""The delivery request: what its wire form holds and what it refuses."""

import base64
import json

import pytest

from reliability.delivery_request import DeliveryRequest, delivery_job_id
from reliability.errors import InvalidInputError

SECRET = "s3cret-payload"


def wire(**changes: object) -> dict[str, object]:
    """Return a valid wire form with some fields changed; None leaves a field out."""
    base: dict[str, object] = {
        "schema": "chio.deliver.request.v1",
        "message_id": "msg-1",
        "partner_id": "acme",
        "content_type": "application/json; charset=utf-8",
        "body": SECRET,
        "created_at": 1_760_000_000,
    }
    return {key: value for key, value in {**base, **changes}.items() if value is not None}


def test_canonical_bytes_are_read_back_as_the_same_request() -> None:
    """A request written as canonical bytes and read again is equal to itself."""
    request = DeliveryRequest.from_wire(wire(headers={"x-trace": "a b"}, expires_at=1_760_000_060))

    again = DeliveryRequest.from_json(request.canonical_json())

    assert again == request
    assert again.canonical_json() == request.canonical_json()


def test_a_text_body_and_its_base64_form_are_one_request() -> None:
    """The same bytes as text and as base64 give the same canonical bytes, so the ledger sees a duplicate."""
    as_text = DeliveryRequest.from_wire(wire(body="grüezi"))
    as_base64 = DeliveryRequest.from_wire(wire(body=None, body_base64=base64.b64encode("grüezi".encode()).decode()))

    assert as_base64.canonical_json() == as_text.canonical_json()


def test_bytes_that_are_no_text_travel_as_base64() -> None:
    """A body that is not UTF-8 is written as base64 and comes back byte for byte."""
    request = DeliveryRequest.from_wire(wire(body=None, body_base64="//79"))

    written = json.loads(request.canonical_json())

    assert request.body == b"\xff\xfe\xfd"
    assert written["body_base64"] == "//79"
    assert "body" not in written


@pytest.mark.parametrize(
    "changes",
    [
        {"schema": "chio.deliver.request.v2"},
        {"schema": None},
        {"extra": 1},
        {"body": None},
        {"body_base64": "//79"},
        {"body": None, "body_base64": "//7"},
        {"body": None, "body_base64": "grüezi"},
        {"body": None, "body_base64": 5},
        {"body": 5},
        {"message_id": ""},
        {"message_id": "a\nb"},
        {"message_id": "a b"},
        {"message_id": "x" * 201},
        {"message_id": "id\n"},
        {"partner_id": "ü"},
        {"content_type": "text/plain\r\nx: y"},
        {"content_type": ""},
        {"created_at": -1},
        {"created_at": 1.0},
        {"created_at": "5"},
        {"created_at": True},
        {"created_at": 2**53},
        {"expires_at": 1_760_000_000},
        {"headers": {"X-Trace": "a"}},
        {"headers": {"host": "a"}},
        {"headers": {"webhook-signature": "a"}},
        {"headers": {"x-a": "b\r\nc: d"}},
        {"headers": {"x-a": " b"}},
        {"headers": {"x-a": ""}},
        {"headers": {"x-a": 5}},
        {"headers": ["x-a"]},
    ],
)
def test_what_the_contract_does_not_name_is_refused(changes: dict[str, object]) -> None:
    """Each deviation from the wire form is refused, and the message shows nothing of the body."""
    with pytest.raises(InvalidInputError) as refused:
        DeliveryRequest.from_wire(wire(**changes))

    assert SECRET not in str(refused.value)


def test_a_refused_header_is_named() -> None:
    """The message about a reserved header says which one and that the sender sets it."""
    with pytest.raises(InvalidInputError, match="expected no header host, which the sender sets itself"):
        DeliveryRequest.from_wire(wire(headers={"host": "a"}))


def test_the_repr_shows_no_payload() -> None:
    """The repr of a request holds its ids and neither body nor headers."""
    shown = repr(DeliveryRequest.from_wire(wire(headers={"x-a": "value-of-header"})))

    assert "msg-1" in shown
    assert SECRET not in shown
    assert "value-of-header" not in shown


def test_job_ids_of_different_pairs_differ() -> None:
    """A colon or percent sign inside an id is encoded, so no two pairs share a job id."""
    assert delivery_job_id("a:b", "c") == "delivery:a%3Ab:c"
    assert delivery_job_id("a", "b:c") == "delivery:a:b%3Ac"
    assert delivery_job_id("a%3Ab", "c") == "delivery:a%253Ab:c"
    assert DeliveryRequest.from_wire(wire()).job_id == "delivery:acme:msg-1"
