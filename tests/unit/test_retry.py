"""The retry policy's ranges and backoffs, and the decision table of one attempt."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reliability import outcomes, retry
from reliability.errors import ChioError, InvalidInputError, PolicyRangeError
from reliability.failures import RETRYABLE_CODES, SettlementFailureCode, SettlementFailureReason, SettlementSkipReason

U32_MAX = 2**32 - 1
PERMANENT_CODES = sorted(set(SettlementFailureCode) - RETRYABLE_CODES)


def reason_of(code: SettlementFailureCode) -> SettlementFailureReason:
    """Make a reason with this code."""
    return SettlementFailureReason.from_detail(code, "connection refused")


RPC = reason_of(SettlementFailureCode.RPC)


@st.composite
def policies(draw: st.DrawFn) -> retry.RetryPolicy:
    """Draw any policy within the documented ranges."""
    cap_ms = draw(st.integers(1, retry.BACKOFF_CAP_LIMIT_MS))
    return retry.RetryPolicy(
        max_retries=draw(st.integers(0, retry.MAX_RETRIES_LIMIT)),
        initial_backoff_ms=draw(st.integers(1, cap_ms)),
        backoff_multiplier=draw(st.integers(1, retry.BACKOFF_MULTIPLIER_LIMIT)),
        backoff_cap_ms=cap_ms,
    )


def test_defaults_are_the_documented_ones() -> None:
    """A policy without arguments allows 5 retries from 250 ms, doubling, up to a minute."""
    policy = retry.RetryPolicy()

    assert (policy.max_retries, policy.initial_backoff_ms) == (5, 250)
    assert (policy.backoff_multiplier, policy.backoff_cap_ms) == (2, 60_000)


def test_documented_example_of_backoffs() -> None:
    """A doubling backoff from 100 ms capped at 1000 ms gives 100, 200, 400, 800, 1000, and 1000 ever after."""
    policy = retry.RetryPolicy(initial_backoff_ms=100, backoff_multiplier=2, backoff_cap_ms=1000)

    backoffs_ms = [policy.backoff_ms_for(attempt) for attempt in (0, 1, 2, 3, 4, 50)]

    assert backoffs_ms == [100, 200, 400, 800, 1000, 1000]


@given(policies(), st.integers(0, U32_MAX))
def test_backoff_stays_between_initial_and_cap(policy: retry.RetryPolicy, attempt: int) -> None:
    """A backoff is never below the initial one and never above the cap, at any attempt."""
    backoff_ms = policy.backoff_ms_for(attempt)

    assert policy.initial_backoff_ms <= backoff_ms <= policy.backoff_cap_ms


@given(policies(), st.integers(0, U32_MAX - 1))
def test_backoff_never_shrinks(policy: retry.RetryPolicy, attempt: int) -> None:
    """A later attempt never waits less."""
    assert policy.backoff_for(attempt) <= policy.backoff_for(attempt + 1)


@given(policies(), st.integers(0, 200))
def test_backoff_is_the_capped_power(policy: retry.RetryPolicy, attempt: int) -> None:
    """A backoff is min(initial x multiplier^attempt, cap), written out."""
    power_ms = policy.initial_backoff_ms * policy.backoff_multiplier**attempt

    assert policy.backoff_ms_for(attempt) == min(power_ms, policy.backoff_cap_ms)


@given(policies())
def test_horizon_is_the_sum_of_the_backoffs(policy: retry.RetryPolicy) -> None:
    """The horizon adds the backoffs of every retry the policy allows."""
    total_ms = sum(policy.backoff_ms_for(attempt) for attempt in range(policy.max_retries))

    assert policy.horizon() == timedelta(milliseconds=total_ms)


def test_longest_horizon_is_32_days() -> None:
    """The widest legal policy waits 32 times 24 hours."""
    policy = retry.RetryPolicy(max_retries=32, initial_backoff_ms=86_400_000, backoff_cap_ms=86_400_000)

    assert policy.horizon() == timedelta(days=32)


def test_negative_attempt_is_refused() -> None:
    """A backoff is asked for attempt 0 or later only."""
    with pytest.raises(InvalidInputError, match="attempt"):
        retry.RetryPolicy().backoff_for(-1)


@pytest.mark.parametrize(
    "values, sentence",
    [
        ({"max_retries": 33}, "max_retries exceeds 32: 33"),
        ({"initial_backoff_ms": 0}, "initial_backoff_ms must be nonzero"),
        ({"backoff_cap_ms": 0}, "backoff_cap_ms must be nonzero"),
        ({"backoff_cap_ms": 86_400_001}, "backoff_cap_ms exceeds 86400000: 86400001"),
        ({"initial_backoff_ms": 11, "backoff_cap_ms": 10}, "initial_backoff_ms 11 exceeds backoff_cap_ms 10"),
        ({"backoff_multiplier": 0}, "backoff_multiplier must be in 1..=16: 0"),
        ({"backoff_multiplier": 17}, "backoff_multiplier must be in 1..=16: 17"),
    ],
)
def test_policy_out_of_range_never_exists(values: dict[str, int], sentence: str) -> None:
    """Construction out of range raises a ValueError with the documented sentence and the values as attributes."""
    with pytest.raises(PolicyRangeError) as refusal:
        retry.RetryPolicy(**values)

    assert isinstance(refusal.value, ValueError)
    assert sentence in str(refusal.value)
    assert {name: getattr(refusal.value, name) for name in values} == values


@pytest.mark.parametrize(
    "broken, sentence",
    [
        ((33, 0, 0, 0), "max_retries exceeds 32: 33"),
        ((0, 0, 0, 0), "initial_backoff_ms must be nonzero"),
        ((0, 1, 0, 0), "backoff_cap_ms must be nonzero"),
        ((0, 86_400_002, 0, 86_400_001), "backoff_cap_ms exceeds 86400000: 86400001"),
        ((0, 2, 0, 1), "initial_backoff_ms 2 exceeds backoff_cap_ms 1"),
        ((0, 1, 0, 1), "backoff_multiplier must be in 1..=16: 0"),
    ],
)
def test_first_broken_range_wins(broken: tuple[int, int, int, int], sentence: str) -> None:
    """Of several ranges broken at once the first in the documented order is told."""
    max_retries, initial_backoff_ms, backoff_multiplier, backoff_cap_ms = broken

    with pytest.raises(PolicyRangeError) as refusal:
        retry.RetryPolicy(
            max_retries=max_retries,
            initial_backoff_ms=initial_backoff_ms,
            backoff_multiplier=backoff_multiplier,
            backoff_cap_ms=backoff_cap_ms,
        )

    assert refusal.value.sentence == sentence


@pytest.mark.parametrize("value", [True, "5", 5.0, None, -1, 2**32])
def test_construction_refuses_what_is_no_unsigned_integer(value: object) -> None:
    """A field that is no integer of its width is refused when the policy is made, naming the field."""
    values: dict[str, object] = {"max_retries": value}

    with pytest.raises(InvalidInputError) as refusal:
        retry.RetryPolicy(**values)  # type: ignore[arg-type]  # the wrong type is the point

    assert refusal.value.field == "max_retries"
    assert not isinstance(refusal.value, PolicyRangeError)


def test_policy_is_an_immutable_value() -> None:
    """Two policies with the same fields are equal, hash alike and cannot be changed."""
    policy, same = retry.RetryPolicy(max_retries=3), retry.RetryPolicy(max_retries=3)

    assert policy == same
    assert hash(policy) == hash(same)
    assert policy != retry.RetryPolicy(max_retries=4)
    with pytest.raises(AttributeError):
        policy.max_retries = 4  # type: ignore[misc]  # the assignment is what must fail


@pytest.mark.parametrize(
    "text",
    [
        '{"max_retries": 5, "initial_backoff_ms": 250, "backoff_multiplier": 2, "backoff_cap_ms": -0}',
        '{"max_retries": 5e0, "initial_backoff_ms": 250, "backoff_multiplier": 2, "backoff_cap_ms": 60000}',
        '{"max_retries": 4294967296, "initial_backoff_ms": 250, "backoff_multiplier": 2, "backoff_cap_ms": 60000}',
        '{"max_retries": 5, "initial_backoff_ms": 250, "backoff_multiplier": 2, "backoff_cap_ms": NaN}',
        "[5, 250, 2, 60000]",
        b"\xff",
    ],
)
def test_from_json_refuses_what_is_no_policy(text: str | bytes) -> None:
    """A text that is no policy raises a ValueError of this project's own tree."""
    with pytest.raises(InvalidInputError) as refusal:
        retry.RetryPolicy.from_json(text)

    assert isinstance(refusal.value, ValueError)
    assert isinstance(refusal.value, ChioError)
    assert not isinstance(refusal.value, PolicyRangeError)


def test_no_retries_is_a_valid_policy() -> None:
    """With max_retries 0 the first call is the only one."""
    policy = retry.RetryPolicy(max_retries=0)

    assert retry.classify_attempt(policy, 0, outcomes.Retryable(RPC)) == retry.DeadLetter(RPC)
    assert policy.horizon() == timedelta()


@pytest.mark.parametrize("attempt", [0, 1, 2, 50, U32_MAX])
def test_accepted_is_accepted_at_any_attempt(attempt: int) -> None:
    """An accepted attempt ends the job, whichever it was."""
    assert retry.classify_attempt(retry.RetryPolicy(), attempt, outcomes.Accepted("t-1")) == retry.Accepted()


@pytest.mark.parametrize("attempt", [0, 5, U32_MAX])
@pytest.mark.parametrize("skip_reason", SettlementSkipReason)
def test_skipped_is_skipped_at_any_attempt(skip_reason: SettlementSkipReason, attempt: int) -> None:
    """A skip ends the job with its reason unchanged."""
    decision = retry.classify_attempt(retry.RetryPolicy(), attempt, outcomes.Skipped(skip_reason))

    assert decision == retry.Skip(skip_reason)


@pytest.mark.parametrize("attempt", [0, 1, 2, U32_MAX])
@pytest.mark.parametrize("code", SettlementFailureCode)
def test_permanent_is_dead_at_any_attempt(code: SettlementFailureCode, attempt: int) -> None:
    """A permanent failure ends the job at once, whatever its code."""
    reason = reason_of(code)

    decision = retry.classify_attempt(retry.RetryPolicy(), attempt, outcomes.Permanent(reason))

    assert decision == retry.DeadLetter(reason)


@pytest.mark.parametrize("code", PERMANENT_CODES)
def test_retryable_with_a_permanent_code_is_dead(code: SettlementFailureCode) -> None:
    """A code that may not retry ends the job at attempt 0, whatever the hook asked for."""
    reason = reason_of(code)

    decision = retry.classify_attempt(retry.RetryPolicy(), 0, outcomes.Retryable(reason))

    assert decision == retry.DeadLetter(reason)


@pytest.mark.parametrize(
    "attempt, decision",
    [
        (0, retry.Retry(1, timedelta(milliseconds=250), RPC)),
        (1, retry.Retry(2, timedelta(milliseconds=500), RPC)),
        (2, retry.DeadLetter(RPC)),
        (3, retry.DeadLetter(RPC)),
        (U32_MAX, retry.DeadLetter(RPC)),
    ],
)
def test_retryable_retries_until_max_retries(attempt: int, decision: retry.AttemptDecision) -> None:
    """With max_retries 2 the attempts 0 and 1 retry, and attempt 2 and later are dead."""
    policy = retry.RetryPolicy(max_retries=2)

    assert retry.classify_attempt(policy, attempt, outcomes.Retryable(RPC, retry_after_ms=9)) == decision


@given(policies(), st.integers(0, U32_MAX), st.sampled_from(SettlementFailureCode))
def test_retryable_never_passes_the_envelope(
    policy: retry.RetryPolicy, attempt: int, code: SettlementFailureCode
) -> None:
    """A retry is only ever decided within max_retries and for a code that may retry, by exactly one attempt more."""
    decision = retry.classify_attempt(policy, attempt, outcomes.Retryable(reason_of(code)))

    match decision:
        case retry.Retry(next_attempt, backoff, _):
            assert next_attempt == attempt + 1 <= policy.max_retries
            assert code in RETRYABLE_CODES
            assert backoff == policy.backoff_for(attempt)
        case _:
            assert decision == retry.DeadLetter(reason_of(code))
            assert attempt >= policy.max_retries or code not in RETRYABLE_CODES
