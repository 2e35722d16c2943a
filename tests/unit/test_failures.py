"""The closed taxonomy of failures, reasons without details, and what a hook's exception means."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reliability import errors, failures, outcomes
from reliability.errors import InvalidInputError
from reliability.failures import SettlementFailureClass, SettlementFailureCode, SettlementFailureReason

DOCUMENTED_CODES = [
    "invalid_receipt_signature",
    "invalid_action_hash",
    "untrusted_receipt_signer",
    "malformed_financial_metadata",
    "invalid_observation",
    "rpc",
    "invalid_input",
    "invalid_dispatch",
    "invalid_binding",
    "unsupported",
    "serialization",
    "signature",
    "verification",
    "backend",
]


def test_the_codes_are_the_documented_ones() -> None:
    """The taxonomy is closed: these codes and no other."""
    assert list(SettlementFailureCode) == DOCUMENTED_CODES


@pytest.mark.parametrize("code", SettlementFailureCode)
def test_only_rpc_and_backend_may_retry(code: SettlementFailureCode) -> None:
    """Every code but rpc and backend is permanent."""
    expected = code in {"rpc", "backend"}

    assert failures.may_retry(code) is expected
    assert (failures.failure_class(code) is SettlementFailureClass.RETRYABLE) is expected


def test_the_skip_reasons_are_the_documented_ones() -> None:
    """There are three reasons to skip."""
    assert list(failures.SettlementSkipReason) == ["denied", "no_economic_intent", "zero_charge"]


@given(st.sampled_from(SettlementFailureCode), st.text())
def test_a_reason_holds_the_digest_of_its_detail_only(code: SettlementFailureCode, detail: str) -> None:
    """A reason is the code and the SHA-256 of the detail's UTF-8 bytes, and reads back from the wire."""
    reason = SettlementFailureReason.from_detail(code, detail)

    assert reason.detail_sha256 == hashlib.sha256(detail.encode()).digest()
    assert reason.to_wire() == {"code": code.value, "detail_sha256": list(reason.detail_sha256)}
    assert SettlementFailureReason.from_wire(reason.to_wire()) == reason


def test_a_detail_that_utf8_cannot_hold_still_has_a_digest() -> None:
    """A lone surrogate in a foreign exception's text does not hide the failure."""
    reason = SettlementFailureReason.from_detail(SettlementFailureCode.BACKEND, "broken \udcff name")

    assert len(reason.detail_sha256) == 32


@pytest.mark.parametrize("length", [0, 31, 33])
def test_a_digest_of_another_length_is_refused(length: int) -> None:
    """A reason exists with 32 digest bytes or not at all."""
    with pytest.raises(InvalidInputError, match="32 bytes"):
        SettlementFailureReason(code=SettlementFailureCode.RPC, detail_sha256=bytes(length))


ZEROS = [0] * 32


@pytest.mark.parametrize(
    "value, field",
    [
        (None, "reason"),
        ("rpc", "reason"),
        ({"code": "rpc"}, "reason"),
        ({"detail_sha256": ZEROS}, "reason"),
        ({"code": "rpc", "detail_sha256": ZEROS, "detail": "x"}, "reason"),
        ({"code": "RPC", "detail_sha256": ZEROS}, "reason.code"),
        ({"code": ["rpc"], "detail_sha256": ZEROS}, "reason.code"),
        ({"code": None, "detail_sha256": ZEROS}, "reason.code"),
        ({"code": "rpc", "detail_sha256": "00" * 32}, "reason.detail_sha256"),
        ({"code": "rpc", "detail_sha256": ZEROS[1:]}, "reason.detail_sha256"),
        ({"code": "rpc", "detail_sha256": [*ZEROS, 0]}, "reason.detail_sha256"),
        ({"code": "rpc", "detail_sha256": [*ZEROS[1:], 256]}, "reason.detail_sha256"),
        ({"code": "rpc", "detail_sha256": [*ZEROS[1:], -1]}, "reason.detail_sha256"),
        ({"code": "rpc", "detail_sha256": [*ZEROS[1:], True]}, "reason.detail_sha256"),
        ({"code": "rpc", "detail_sha256": [*ZEROS[1:], 1.0]}, "reason.detail_sha256"),
    ],
)
def test_a_reason_that_does_not_follow_the_contract_is_refused(value: object, field: str) -> None:
    """Unknown, missing and mistyped fields of a reason are errors that name the field."""
    with pytest.raises(InvalidInputError) as refusal:
        SettlementFailureReason.from_wire(value)

    assert refusal.value.field == field


@pytest.mark.parametrize("value", ["Denied", "", None, 5, ["denied"]])
def test_an_unknown_skip_reason_is_refused(value: object) -> None:
    """A skip reason is one of the three or an error."""
    with pytest.raises(InvalidInputError, match="denied"):
        failures.skip_reason_from_wire(value)


def reason_of(code: SettlementFailureCode) -> SettlementFailureReason:
    """Make the reason a hook's error with the detail "why" leads to."""
    return SettlementFailureReason.from_detail(code, "why")


@pytest.mark.parametrize(
    "error, expected",
    [
        (
            errors.HookInvalidObservationError("why"),
            outcomes.Permanent(reason_of(SettlementFailureCode.INVALID_OBSERVATION)),
        ),
        (errors.HookTransientError("why"), outcomes.Retryable(reason_of(SettlementFailureCode.BACKEND))),
        (errors.HookPermanentError("why"), outcomes.Permanent(reason_of(SettlementFailureCode.BACKEND))),
    ],
)
def test_hook_errors_map_to_class_and_code(error: Exception, expected: outcomes.SettlementResult) -> None:
    """Each hook error stands for one class and code."""
    assert outcomes.classify_exception(error) == expected


@pytest.mark.parametrize("code", SettlementFailureCode)
def test_pipeline_errors_keep_their_code(code: SettlementFailureCode) -> None:
    """A pipeline error keeps its code; rpc is retryable and every other one permanent."""
    result = outcomes.classify_exception(errors.HookPipelineError(code, "why"))

    kind = outcomes.Retryable if code == "rpc" else outcomes.Permanent
    assert result == kind(reason_of(code))


class UnprintableError(Exception):
    """Fail even when it is asked what is wrong."""

    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize("error", [RuntimeError("boom"), KeyError("x"), OSError(5, "io"), UnprintableError()])
def test_an_unclassified_exception_is_a_retryable_backend_failure(error: Exception) -> None:
    """An exception nobody classified is tried again, whatever it is made of."""
    result = outcomes.classify_exception(error)

    assert isinstance(result, outcomes.Retryable)
    assert result.reason.code is SettlementFailureCode.BACKEND
