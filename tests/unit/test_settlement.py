"""Observations and outcomes on the wire."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from reliability.errors import InvalidInputError
from reliability.failures import (
    RETRYABLE_CODES,
    SettlementFailureCode,
    SettlementFailureReason,
    SettlementSkipReason,
)
from reliability.outcomes import Accepted, ClassifiedResult, Permanent, Retryable, Skipped
from reliability.settlement import (
    OBSERVATION_SCHEMA,
    OUTCOME_SCHEMA,
    SettlementObservation,
    SettlementOutcome,
    hold_to_contract,
)

OBSERVATION: dict[str, object] = {
    "schema": OBSERVATION_SCHEMA,
    "receipt_id": "rcpt-1",
    "finalized_at": 1_700_000_000,
    "tenant_id": "tenant-1",
    "tool_server": "tools.example",
    "tool_name": "search",
    "capability_id": "cap-1",
    "amount": {"units": 1250, "currency": "EUR"},
    "content_hash": "sha256:aa",
    "policy_hash": "sha256:bb",
}

REASON = SettlementFailureReason.from_detail(SettlementFailureCode.RPC, "connection refused")


def observation_text(**changes: object) -> str:
    """Write the example observation with some fields changed."""
    return json.dumps(OBSERVATION | changes)


def without(field: str) -> dict[str, object]:
    """Return the example observation without a field."""
    return {name: value for name, value in OBSERVATION.items() if name != field}


def test_an_observation_is_read_and_written_back() -> None:
    """Every field of the wire form is kept, hashes verbatim, and written as canonical bytes."""
    observation = SettlementObservation.from_json(json.dumps(OBSERVATION))

    assert observation.to_wire() == OBSERVATION
    assert observation.amount.units == 1250
    assert observation.canonical_json() == json.dumps(OBSERVATION, sort_keys=True, separators=(",", ":")).encode()


def test_an_observation_cannot_be_changed() -> None:
    """An observation and its amount are values: what was read is what is sent."""
    observation = SettlementObservation.from_json(json.dumps(OBSERVATION))

    with pytest.raises(ValidationError):
        observation.receipt_id = "rcpt-2"  # type: ignore[misc]  # the assignment is what must fail
    with pytest.raises(ValidationError):
        observation.amount.units = 1  # type: ignore[misc]  # the assignment is what must fail


@pytest.mark.parametrize("text", [json.dumps(without("tenant_id")), observation_text(tenant_id=None)])
def test_an_absent_tenant_is_left_out(text: str) -> None:
    """A tenant that is missing or null is no tenant, and is not written."""
    observation = SettlementObservation.from_json(text)

    assert observation.tenant_id is None
    assert b"tenant_id" not in observation.canonical_json()


@pytest.mark.parametrize("field", sorted(OBSERVATION.keys() - {"tenant_id"}))
def test_a_missing_field_is_refused(field: str) -> None:
    """Every field but the tenant is required."""
    with pytest.raises(InvalidInputError) as refusal:
        SettlementObservation.from_json(json.dumps(without(field)))

    assert refusal.value.field == field


@pytest.mark.parametrize(
    "changes, field",
    [
        ({"schema": "chio.settle.observation.v2"}, "schema"),
        ({"schema": None}, "schema"),
        ({"receipt_id": ""}, "receipt_id"),
        ({"receipt_id": 7}, "receipt_id"),
        ({"receipt_id": "\ud800"}, "json"),
        ({"finalized_at": -1}, "finalized_at"),
        ({"finalized_at": 2**64}, "finalized_at"),
        ({"finalized_at": 1.0}, "finalized_at"),
        ({"finalized_at": "1700000000"}, "finalized_at"),
        ({"finalized_at": True}, "finalized_at"),
        ({"tenant_id": 5}, "tenant_id"),
        ({"tool_name": None}, "tool_name"),
        ({"amount": None}, "amount"),
        ({"amount": {"units": 0, "currency": "EUR"}}, "amount.units"),
        ({"amount": {"units": -1, "currency": "EUR"}}, "amount.units"),
        ({"amount": {"units": 2**64, "currency": "EUR"}}, "amount.units"),
        ({"amount": {"units": 1.0, "currency": "EUR"}}, "amount.units"),
        ({"amount": {"units": "1", "currency": "EUR"}}, "amount.units"),
        ({"amount": {"units": True, "currency": "EUR"}}, "amount.units"),
        ({"amount": {"units": 1, "currency": "eur"}}, "amount.currency"),
        ({"amount": {"units": 1, "currency": "EURO"}}, "amount.currency"),
        ({"amount": {"units": 1, "currency": "EUR\n"}}, "amount.currency"),
        ({"amount": {"units": 1, "currency": "ÄÖÜ"}}, "amount.currency"),
        ({"amount": {"units": 1}}, "amount.currency"),
        ({"amount": {"units": 1, "currency": "EUR", "scale": 2}}, "amount.scale"),
        ({"extra": 1}, "extra"),
        ({"schema_tag": OBSERVATION_SCHEMA}, "schema_tag"),
    ],
)
def test_what_the_contract_does_not_name_is_refused(changes: dict[str, object], field: str) -> None:
    """A wrong, mistyped or unknown field is a ValueError that names the field."""
    with pytest.raises(InvalidInputError) as refusal:
        SettlementObservation.from_json(observation_text(**changes))

    assert refusal.value.field == field
    assert isinstance(refusal.value, ValueError)


def test_a_refusal_does_not_show_the_value() -> None:
    """The value of a refused field never appears in the error, and neither does a key that is no name."""
    texts = [observation_text(tool_name=["p4yload"]), observation_text(**{"p4yload secret": 1})]

    for text in texts:
        with pytest.raises(InvalidInputError) as refusal:
            SettlementObservation.from_json(text)
        assert "p4yload" not in str(refusal.value)


@pytest.mark.parametrize("text", ["[]", "null", '"x"', "5", ""])
def test_what_is_no_object_is_refused(text: str) -> None:
    """Only an object is an observation."""
    with pytest.raises(InvalidInputError):
        SettlementObservation.from_json(text)


def test_numbers_up_to_their_width_are_read() -> None:
    """An unsigned 64-bit time and amount are within the contract."""
    text = observation_text(finalized_at=2**64 - 1, amount={"units": 2**64 - 1, "currency": "JPY"})

    observation = SettlementObservation.from_json(text)

    assert observation.finalized_at == observation.amount.units == 2**64 - 1


@pytest.mark.parametrize("changes", [{"finalized_at": 2**53}, {"amount": {"units": 2**53, "currency": "JPY"}}])
def test_a_number_without_canonical_form_is_refused_when_written(changes: dict[str, object]) -> None:
    """An observation whose numbers RFC 8785 cannot write exactly has no bytes to send."""
    observation = SettlementObservation.from_json(observation_text(**changes))

    with pytest.raises(InvalidInputError):
        observation.canonical_json()


def test_observations_are_ordered_by_time_then_id_bytes() -> None:
    """Batches order by finalized_at, then by the id's UTF-8 bytes and not its code points in another encoding."""
    wanted = [(1, "z"), (2, "a"), (2, "b"), (2, "\uffee"), (2, "\N{GRINNING FACE}")]
    observations = [
        SettlementObservation.from_json(observation_text(finalized_at=finalized_at, receipt_id=receipt_id))
        for finalized_at, receipt_id in reversed(wanted)
    ]

    ordered = sorted(observations, key=lambda observation: observation.ordering_key)

    assert [(observation.finalized_at, observation.receipt_id) for observation in ordered] == wanted


@given(st.builds(Accepted, st.text()) | st.builds(Skipped, st.sampled_from(SettlementSkipReason)))
def test_good_outcomes_read_back_from_their_bytes(result: ClassifiedResult) -> None:
    """What was written as accepted or skipped is read as the same."""
    assert SettlementOutcome.from_json(SettlementOutcome.canonical_json(result)) == result


@pytest.mark.parametrize("code", SettlementFailureCode)
def test_failed_outcomes_read_back_from_their_bytes(code: SettlementFailureCode) -> None:
    """A failure is read as written, but one that asks for a retry with a permanent code is read as permanent."""
    reason = SettlementFailureReason.from_detail(code, "why")

    permanent = SettlementOutcome.from_json(SettlementOutcome.canonical_json(Permanent(reason)))
    retryable = SettlementOutcome.from_json(SettlementOutcome.canonical_json(Retryable(reason)))

    assert permanent == Permanent(reason)
    assert retryable == (Retryable(reason) if code in RETRYABLE_CODES else Permanent(reason))


def test_the_outcome_has_the_documented_form() -> None:
    """An accepted outcome has kind, schema and transcript id, in canonical order."""
    encoded = SettlementOutcome.canonical_json(Accepted("tx-1"))

    assert encoded == b'{"kind":"accepted","schema":"chio.settle.outcome.v2","transcript_id":"tx-1"}'


@pytest.mark.parametrize("schema", ["chio.settle.outcome.v1", "chio.settle.outcome.v3", ""])
def test_an_outcome_of_another_schema_is_a_permanent_failure(schema: str) -> None:
    """An outcome of another version is not guessed at: permanent, invalid_observation."""
    result = SettlementOutcome.from_json(json.dumps({"kind": "new", "schema": schema, "fields": "unknown"}))

    assert isinstance(result, Permanent)
    assert result.reason.code is SettlementFailureCode.INVALID_OBSERVATION


@pytest.mark.parametrize(
    "value",
    [
        [],
        {"kind": "accepted", "transcript_id": "t"},
        {"kind": "accepted", "schema": 2, "transcript_id": "t"},
        {"kind": "accepted", "schema": OUTCOME_SCHEMA},
        {"kind": "accepted", "schema": OUTCOME_SCHEMA, "transcript_id": None},
        {"kind": "accepted", "schema": OUTCOME_SCHEMA, "transcript_id": "t", "reason": "denied"},
        {"kind": "Accepted", "schema": OUTCOME_SCHEMA, "transcript_id": "t"},
        {"schema": OUTCOME_SCHEMA, "transcript_id": "t"},
        {"kind": ["accepted"], "schema": OUTCOME_SCHEMA, "transcript_id": "t"},
        {"kind": "skipped", "schema": OUTCOME_SCHEMA, "reason": "bored"},
        {"kind": "skipped", "schema": OUTCOME_SCHEMA},
        {"kind": "retryable", "schema": OUTCOME_SCHEMA, "reason": "rpc"},
        {"kind": "permanent", "schema": OUTCOME_SCHEMA, "reason": REASON.to_wire() | {"detail": "x"}},
        {"kind": "permanent", "schema": OUTCOME_SCHEMA, "reason": REASON.to_wire(), "extra": 1},
    ],
)
def test_an_outcome_that_does_not_follow_the_contract_is_refused(value: object) -> None:
    """Unknown, missing and mistyped fields of an outcome are a ValueError."""
    with pytest.raises(InvalidInputError):
        SettlementOutcome.from_json(json.dumps(value))


def test_a_skip_of_a_positive_amount_breaks_the_contract() -> None:
    """A hook that skips a positive amount is held to its contract: permanent, invalid_observation."""
    observation = SettlementObservation.from_json(json.dumps(OBSERVATION))

    result = hold_to_contract(observation, Skipped(SettlementSkipReason.ZERO_CHARGE))

    assert isinstance(result, Permanent)
    assert result.reason.code is SettlementFailureCode.INVALID_OBSERVATION


@pytest.mark.parametrize("result", [Accepted("t"), Retryable(REASON), Permanent(REASON)])
def test_any_other_answer_keeps_the_contract(result: ClassifiedResult) -> None:
    """Accepted, retryable and permanent answers pass unchanged."""
    observation = SettlementObservation.from_json(json.dumps(OBSERVATION))

    assert hold_to_contract(observation, result) == result
