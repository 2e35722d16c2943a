"""
How often and how far apart a failed attempt is repeated.

Pure: no clock, no chance, no storage; jitter is added where a retry is scheduled. The flows in `tasks` ask
`classify_attempt` and carry its decision out.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Self, assert_never

from reliability import canonical, failures, fields, outcomes
from reliability.errors import InvalidInputError, PolicyRangeError
from reliability.failures import SettlementFailureReason, SettlementSkipReason

#: Most repeats a policy may ask for.
MAX_RETRIES_LIMIT = 32
#: Longest single backoff: 24 hours, in milliseconds.
BACKOFF_CAP_LIMIT_MS = 86_400_000
#: Largest growth from one backoff to the next.
BACKOFF_MULTIPLIER_LIMIT = 16

#: Each field of a policy with the largest number its width holds.
_POLICY_FIELDS = {
    "max_retries": fields.U32_MAX,
    "initial_backoff_ms": fields.U64_MAX,
    "backoff_multiplier": fields.U32_MAX,
    "backoff_cap_ms": fields.U64_MAX,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """
    Bound the attempts of one job: `max_retries` + 1 in all, apart by a growing, capped backoff.

    Raises:
        InvalidInputError: A field is no integer of its width.
        PolicyRangeError: The values are out of range; such a policy never exists.

    """

    max_retries: int = 5
    initial_backoff_ms: int = 250
    backoff_multiplier: int = 2
    backoff_cap_ms: int = 60_000
    _backoffs: tuple[timedelta, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, most in _POLICY_FIELDS.items():
            fields.unsigned(name, getattr(self, name), most)
        self._refuse_out_of_range()
        table = tuple(timedelta(milliseconds=backoff_ms) for backoff_ms in self._growing_backoffs_ms())
        object.__setattr__(self, "_backoffs", table)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """
        Read a policy; all four fields are required and nothing else is allowed.

        Raises:
            InvalidInputError: The text is not a policy.
            PolicyRangeError: It is one, out of range.

        """
        return cls.from_wire(canonical.strict_json(text))

    @classmethod
    def from_wire(cls, value: object) -> Self:
        """
        Read a policy that is decoded JSON already.

        Raises:
            InvalidInputError: As `from_json`.

        """
        found = fields.members("retry policy", value, frozenset(_POLICY_FIELDS))
        return cls(**{name: fields.unsigned(name, found[name], most) for name, most in _POLICY_FIELDS.items()})

    def backoff_for(self, attempt: int) -> timedelta:
        """
        Return the wait after the zero-based attempt failed: min(initial x multiplier^attempt, cap).

        Raises:
            InvalidInputError: The attempt is negative.

        """
        if attempt < 0:
            raise InvalidInputError("attempt", "expected 0 or more, got a negative number")
        return self._backoffs[min(attempt, len(self._backoffs) - 1)]

    def backoff_ms_for(self, attempt: int) -> int:
        """Return `backoff_for` in whole milliseconds."""
        return self.backoff_for(attempt) // timedelta(milliseconds=1)

    def horizon(self) -> timedelta:
        """Return the sum of all backoffs: how long the retries of one job wait in all."""
        return sum((self.backoff_for(attempt) for attempt in range(self.max_retries)), timedelta())

    def _growing_backoffs_ms(self) -> Iterator[int]:
        # A few dozen entries at most: it ends at the cap, or at once where nothing grows.
        backoff_ms = self.initial_backoff_ms
        yield backoff_ms
        while self.backoff_multiplier > 1 and backoff_ms < self.backoff_cap_ms:
            backoff_ms = min(backoff_ms * self.backoff_multiplier, self.backoff_cap_ms)
            yield backoff_ms

    def _refuse_out_of_range(self) -> None:
        if sentence := self._first_sentence_broken():
            raise PolicyRangeError(
                sentence,
                max_retries=self.max_retries,
                initial_backoff_ms=self.initial_backoff_ms,
                backoff_multiplier=self.backoff_multiplier,
                backoff_cap_ms=self.backoff_cap_ms,
            )

    def _first_sentence_broken(self) -> str | None:
        initial, cap, multiplier = self.initial_backoff_ms, self.backoff_cap_ms, self.backoff_multiplier
        checks = (
            (self.max_retries > MAX_RETRIES_LIMIT, f"max_retries exceeds {MAX_RETRIES_LIMIT}: {self.max_retries}"),
            (initial == 0, "initial_backoff_ms must be nonzero"),
            (cap == 0, "backoff_cap_ms must be nonzero"),
            (cap > BACKOFF_CAP_LIMIT_MS, f"backoff_cap_ms exceeds {BACKOFF_CAP_LIMIT_MS}: {cap}"),
            (initial > cap, f"initial_backoff_ms {initial} exceeds backoff_cap_ms {cap}"),
            (
                not 1 <= multiplier <= BACKOFF_MULTIPLIER_LIMIT,
                f"backoff_multiplier must be in 1..={BACKOFF_MULTIPLIER_LIMIT}: {multiplier}",
            ),
        )
        return next((sentence for broken, sentence in checks if broken), None)


@dataclass(frozen=True, slots=True)
class Accepted:
    """The job is done."""


@dataclass(frozen=True, slots=True)
class Skip:
    """The job is done without a settlement."""

    reason: SettlementSkipReason


@dataclass(frozen=True, slots=True)
class Retry:
    """The job runs again as `attempt`, after `backoff`."""

    attempt: int
    backoff: timedelta
    reason: SettlementFailureReason


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """The job ends as a dead letter."""

    reason: SettlementFailureReason


AttemptDecision = Accepted | Skip | Retry | DeadLetter


def classify_attempt(policy: RetryPolicy, attempt: int, outcome: outcomes.ClassifiedResult) -> AttemptDecision:
    """Decide what follows the zero-based attempt that just ended with this outcome."""
    match outcome:
        case outcomes.Accepted():
            return Accepted()
        case outcomes.Skipped(reason):
            return Skip(reason)
        case outcomes.Permanent(failure):
            return DeadLetter(failure)
        case outcomes.Retryable(failure):
            if attempt >= policy.max_retries or not failures.may_retry(failure.code):
                return DeadLetter(failure)
            return Retry(attempt + 1, policy.backoff_for(attempt), failure)
        case _:
            assert_never(outcome)
