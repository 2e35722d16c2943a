"""
What a span of HTTP statuses means: the shape of a rule, its name, and how a partner's file writes one.

`webhook_rules` holds the defaults in this shape; `partner_rules` picks the narrowest rule that covers a status.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from reliability import fields
from reliability.errors import InvalidInputError
from reliability.failures import SettlementFailureCode

#: Three digits, as HTTP has them.
LOWEST_STATUS: Final = 100
HIGHEST_STATUS: Final = 999
#: How many statuses a class such as 4xx has.
CLASS_SIZE: Final = 100
_SPAN = re.compile(r"(?P<first>[1-9][0-9]{2})(-(?P<last>[1-9][0-9]{2}))?", re.ASCII)
_CLASS = re.compile(r"(?P<hundreds>[1-5])xx", re.ASCII)


class Verdict(StrEnum):
    """Name the outcome a rule leads to."""

    SUCCESS_CONFIRMED = "success_confirmed"
    FAILURE_CONFIRMED = "failure_confirmed"
    INDETERMINATE = "indeterminate"
    ACCEPTED_PENDING_VERIFICATION = "accepted_pending_verification"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusRule:
    """Say what the statuses `first` to `last` mean."""

    first: int
    last: int
    verdict: Verdict
    #: The row of the table of situations behind it; None for a rule that a partner's file sets.
    row: int | None = None
    #: The code of a failure or of an unknown outcome.
    code: SettlementFailureCode = SettlementFailureCode.BACKEND
    counts_for_breaker: bool = True
    #: The partner wants no more deliveries at this address.
    disables_endpoint: bool = False
    #: What it means when the answer has a Retry-After; None for the same.
    verdict_with_retry_after: Verdict | None = None

    @property
    def name(self) -> str:
        """Return the rule's short name: `status.410`, `status.5xx`, `status.400-405`."""
        prefix = "status" if self.row is not None else "partner.status"
        return f"{prefix}.{span_name(self.first, self.last)}"

    def covers(self, status: int) -> bool:
        """Tell whether the rule is about this status."""
        return self.first <= status <= self.last


def span_name(first: int, last: int) -> str:
    """Name a span of statuses as partners write it."""
    if first == last:
        return str(first)
    if first % CLASS_SIZE == 0 and last == first + CLASS_SIZE - 1:
        return f"{first // CLASS_SIZE}xx"
    return f"{first}-{last}"


def narrowest(rules: Iterable[StatusRule], status: int) -> StatusRule | None:
    """Return the rule that covers the status with the fewest others; None where none does."""
    covering = (rule for rule in rules if rule.covers(status))
    return min(covering, key=lambda rule: rule.last - rule.first, default=None)


def verdict_from_wire(field: str, value: object) -> Verdict:
    """
    Read an outcome's name.

    Raises:
        InvalidInputError: The value names no outcome.

    """
    if isinstance(value, str) and value in frozenset(Verdict):
        return Verdict(value)
    raise InvalidInputError(field, f"expected one of {', '.join(Verdict)}, got {fields.kind_of(value)}")


def status_rules_from_wire(value: object) -> tuple[StatusRule, ...]:
    """
    Read a partner's status rules: a table of spans (`404`, `4xx`, `500-503`) and outcomes.

    Raises:
        InvalidInputError: Naming the span that is wrong.

    """
    if not isinstance(value, dict):
        raise InvalidInputError("status_rules", f"expected a table of statuses, got {fields.kind_of(value)}")
    return tuple(_rule_from_wire(str(span), outcome) for span, outcome in value.items())


def _rule_from_wire(span: str, outcome: object) -> StatusRule:
    first, last = _span(span)
    verdict = verdict_from_wire(f"status_rules.{span}", outcome)
    is_final = verdict is Verdict.FAILURE_CONFIRMED
    code = SettlementFailureCode.VERIFICATION if is_final else SettlementFailureCode.BACKEND
    return StatusRule(first=first, last=last, verdict=verdict, code=code)


def _span(text: str) -> tuple[int, int]:
    if found := _SPAN.fullmatch(text):
        first = int(found["first"])
        last = int(found["last"] or first)
        if first <= last:
            return first, last
    if found := _CLASS.fullmatch(text):
        first = int(found["hundreds"]) * CLASS_SIZE
        return first, first + CLASS_SIZE - 1
    problem = "expected a status such as 404, a class such as 4xx or a span such as 500-503"
    raise InvalidInputError(f"status_rules.{text[:16]}", problem)
