"""Bytes are parsed and checked in one go where that is safe; what is read and refused is the same either way."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reliability import canonical
from reliability.delivery_request import DeliveryRequest
from reliability.errors import InvalidInputError
from reliability.settlement import Amount, SettlementObservation

OBSERVATION = (
    '{"schema":"chio.settle.observation.v1","receipt_id":"r-1","finalized_at":7,"tenant_id":"t","tool_server":"s",'
    '"tool_name":"n","capability_id":"c","amount":{"units":3,"currency":"EUR"},"content_hash":"h","policy_hash":"p"}'
)
REQUEST = (
    '{"schema":"chio.deliver.request.v1","message_id":"m","partner_id":"p","content_type":"text/plain",'
    '"body":"b","headers":{"x-a":"1"},"created_at":7,"expires_at":9}'
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


def outcome_of(read: Callable[[str | bytes], object], text: str | bytes) -> object:
    """Return what is read, or what the refusal says."""
    try:
        return read(text)
    except InvalidInputError as error:
        return str(error)


@pytest.mark.parametrize(
    "old, new",
    [
        ("", ""),
        ('"tenant_id":"t",', ""),
        ('"tenant_id":"t"', '"tenant_id":null'),
        ('"tenant_id":"t"', '"receipt_id":"r-1"'),
        ('"tenant_id":"t"', '"finalized_at":7'),
        ('"tenant_id":"t"', '"tenant_id":null,"finalized_at":7'),
        ('"units":3', '"units":3,"units":4'),
        ('"finalized_at":7', '"finalized_at":-0'),
        ('"finalized_at":7', '"finalized_at":0'),
        ('"finalized_at":7', '"finalized_at":7.0'),
        ('"finalized_at":7', '"finalized_at":7e0'),
        ('"finalized_at":7', '"finalized_at":NaN'),
        ('"finalized_at":7', '"finalized_at":' + "9" * 500),
        ('"tool_name":"n"', '"tool_name":"\\ud800"'),
        ('"tool_name":"n"', '"tool_name":"\\u0022"'),
        ('"tool_name":"n"', '"tool_name":"\\\\"'),
        ('"tool_name":"n"', '"tool_name":"a\\"b\\n"'),
        ('"tool_name":"n"', '"tool_name":"a\tb"'),
        ('"tool_name":"n"', '"tool_name":"\\\\","tool_name":"\\\\"'),
        ('{"schema"', '\ufeff{"schema"'),
        ('{"schema"', ' \n{"schema"'),
        ('"p"}', '"p"} x'),
        ('"p"}', '"p",}'),
        ('"p"}', '"p","more":1}'),
    ],
)
def test_observations_are_judged_alike(old: str, new: str) -> None:
    """As bytes and as text, an observation is read as the same or refused with the same words."""
    text = OBSERVATION.replace(old, new, 1)

    assert outcome_of(SettlementObservation.from_json, text.encode()) == outcome_of(
        SettlementObservation.from_json, text
    )


@pytest.mark.parametrize(
    "old, new",
    [
        ("", ""),
        ('"schema":"chio.deliver.request.v1",', ""),
        ('"headers":{"x-a":"1"},', ""),
        ('"headers":{"x-a":"1"}', '"headers":{}'),
        ('"headers":{"x-a":"1"}', '"headers":{"x-a":"1","x-a":"1"}'),
        ('"headers":{"x-a":"1"}', '"headers":{"host":"1"}'),
        ('"headers":{"x-a":"1"}', '"headers":null'),
        ('"headers":{"x-a":"1"},', '"body":"b",'),
        ('"body":"b"', '"body_base64":"Yg=="'),
        ('"body":"b"', '"body":"b","body_base64":"Yg=="'),
        ('"body":"b"', '"body":7'),
        ('"body":"b"', '"body":"{\\"a\\":\\"\\n\\"}"'),
        ('"body":"b"', '"body":"{\\"a\\":\\"\\\\\\"\\"}"'),
        ('"body":"b"', '"body":"\\ud800"'),
        ('"body":"b"', '"body":"\\\\","body":"\\\\"'),
        ('"created_at":7', '"created_at":-0'),
        ('"created_at":7', '"created_at":10'),
        (',"expires_at":9', ',"expires_at":null'),
        (',"expires_at":9', ""),
        (',"expires_at":9', ',"schema_tag":"chio.deliver.request.v1"'),
    ],
)
def test_requests_are_judged_alike(old: str, new: str) -> None:
    """As bytes and as text, a delivery is read as the same or refused with the same words."""
    text = REQUEST.replace(old, new, 1)

    assert outcome_of(DeliveryRequest.from_json, text.encode()) == outcome_of(DeliveryRequest.from_json, text)


@given(name=texts, member=texts, after=st.sampled_from(["", '"', "\\", "\n"]))
def test_a_name_that_comes_twice_is_never_let_through(name: str, member: str, after: str) -> None:
    """Whatever the texts hold, a repeated name is refused."""
    value = json.dumps(name + after, ensure_ascii=False)
    twice = json.dumps(member, ensure_ascii=False)
    text = OBSERVATION.replace('"tool_name":"n"', f'"tool_name":{value},"tool_server":{twice}')

    with pytest.raises(InvalidInputError, match="twice"):
        SettlementObservation.from_json(text.encode())


@given(
    name=texts,
    tenant=st.none() | texts,
    units=st.integers(1, canonical.MAX_SAFE_INTEGER),
    finalized_at=st.integers(0, canonical.MAX_SAFE_INTEGER),
)
def test_canonical_bytes_are_those_of_the_wire_form(
    name: str, tenant: str | None, units: int, finalized_at: int
) -> None:
    """The fields are declared in canonical order, so that the quick way to write them gives RFC 8785's bytes."""
    observation = SettlementObservation(
        schema="chio.settle.observation.v1",
        receipt_id="r",
        finalized_at=finalized_at,
        tenant_id=tenant,
        tool_server=name,
        tool_name=name,
        capability_id=name,
        amount=Amount(units=units, currency="EUR"),
        content_hash=name,
        policy_hash=name,
    )

    assert observation.canonical_json() == canonical.canonical_json(observation.to_wire())
    assert SettlementObservation.from_json(observation.canonical_json()) == observation


def test_a_number_without_canonical_form_is_refused() -> None:
    """Past 2^53 - 1 an amount cannot be written, the quick way or any other."""
    text = OBSERVATION.replace('"units":3', f'"units":{canonical.MAX_SAFE_INTEGER + 1}')
    observation = SettlementObservation.from_json(text.encode())

    with pytest.raises(InvalidInputError):
        observation.canonical_json()


def test_plain_bytes_take_the_quick_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """What producers and the ledger write needs no second look."""

    def closer_look(_text: object) -> object:
        raise AssertionError("looked at closely")

    monkeypatch.setattr(canonical, "strict_json", closer_look)

    assert SettlementObservation.from_json(OBSERVATION.encode()).receipt_id == "r-1"
    assert DeliveryRequest.from_json(REQUEST.encode()).message_id == "m"
