"""Every case of the golden data, computed by an independent implementation."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from reliability import outcomes, retry
from reliability.dead_letter import DeadLetterRecord
from reliability.errors import InvalidInputError, InvalidRecordError, PolicyRangeError
from reliability.failures import SettlementFailureCode, SettlementFailureReason, SettlementSkipReason

Case = dict[str, Any]

VECTORS = Path(__file__).parent.parent / "vectors" / "settlement_retry.json"


@cache
def vectors() -> dict[str, list[Case]]:
    """Read the golden data: each operation with its cases."""
    loaded: dict[str, list[Case]] = json.loads(VECTORS.read_text(encoding="utf-8"))
    return loaded


def cases(operation: str) -> pytest.MarkDecorator:
    """Run a test once for each case of an operation."""
    found = vectors()[operation]
    return pytest.mark.parametrize("case", found, ids=[f"{operation}-{number}" for number in range(len(found))])


def test_the_golden_data_is_complete() -> None:
    """All 844 cases of the four operations are there to be run."""
    counts = {operation: len(found) for operation, found in vectors().items()}

    assert counts == {"policy": 248, "classify": 240, "dead_letter": 276, "dead_letter_new": 80}


def policy_verdict(text: str) -> Case:
    """Say how a policy text decodes and validates."""
    try:
        retry.RetryPolicy.from_json(text)
    except PolicyRangeError as error:
        return {"decode": "ok", "validate": str(error).removeprefix("retry policy: ")}
    except InvalidInputError:
        return {"decode": "error"}
    return {"decode": "ok", "validate": "ok"}


@cases("policy")
def test_policy(case: Case) -> None:
    """A policy text decodes, or is refused, with the documented sentence and backoffs."""
    given, expected = case["given"], case["expect"]

    verdict = policy_verdict(given["text"])
    if verdict.get("validate") == "ok":
        policy = retry.RetryPolicy.from_json(given["text"])
        verdict["backoff_ms"] = [policy.backoff_ms_for(attempt) for attempt in given["attempts"]]

    assert verdict == expected


def outcome_of(given: Case) -> outcomes.ClassifiedResult:
    """Make the outcome a case names."""
    reason = SettlementFailureReason.from_detail(SettlementFailureCode(given["code"]), given["detail"])
    answers: dict[str, outcomes.ClassifiedResult] = {
        "accepted": outcomes.Accepted(),
        "skipped": outcomes.Skipped(SettlementSkipReason(given["skip"])),
        "retryable": outcomes.Retryable(reason),
        "permanent": outcomes.Permanent(reason),
    }
    return answers[given["kind"]]


def decision_facts(decision: retry.AttemptDecision) -> Case:
    """Write a decision the way the golden data does."""
    match decision:
        case retry.Accepted():
            return {"decision": "accepted"}
        case retry.Skip(skip_reason):
            return {"decision": "skip", "reason": skip_reason.value}
        case retry.DeadLetter(reason):
            return {"decision": "dead_letter", "reason": reason.to_wire()}
        case retry.Retry(attempt, backoff, reason):
            backoff_ms = round(backoff.total_seconds() * 1000)
            return {"decision": "retry", "attempt": attempt, "backoff_ms": backoff_ms, "reason": reason.to_wire()}


@cases("classify")
def test_classify(case: Case) -> None:
    """An outcome of an attempt leads to the documented decision, its reason unchanged."""
    given = case["given"]
    policy = retry.RetryPolicy(**given["policy"])

    decision = retry.classify_attempt(policy, given["attempt"], outcome_of(given))

    assert decision_facts(decision) == case["expect"]


@cases("dead_letter")
def test_dead_letter(case: Case) -> None:
    """A dead-letter text decodes to the record and its canonical bytes, or is refused as an invalid record."""
    text, expected = case["given"]["text"], case["expect"]
    if expected["decode"] == "error":
        with pytest.raises(InvalidRecordError):
            DeadLetterRecord.from_json(text)
        return

    record = DeadLetterRecord.from_json(text)

    assert record.to_wire() == expected["record"]
    assert record.canonical_json() == expected["sorted_json"].encode()


@cases("dead_letter_new")
def test_dead_letter_new(case: Case) -> None:
    """A new dead letter has the documented bytes, canonical and in field order, and reads back as itself."""
    given, expected = case["given"], case["expect"]
    reason = SettlementFailureReason.from_detail(SettlementFailureCode(given["code"]), given["detail"])

    record = DeadLetterRecord.new(given["receipt_id"], given["finalized_at"], given["attempts"], reason)

    in_field_order = json.dumps(record.to_wire(), ensure_ascii=False, separators=(",", ":"))
    assert in_field_order == expected["field_order_json"]
    assert record.canonical_json() == expected["sorted_json"].encode()
    assert DeadLetterRecord.from_json(record.canonical_json()) == record
