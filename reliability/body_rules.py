"""
What a success with a body of its own may mean, where a partner's rules ask for a look at it.

Webhooks succeed by status; some partners answer 200 and tell the failure in the body. Only such partners have a rule.
"""

import json
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import Self

from reliability import fields
from reliability.errors import InvalidInputError
from reliability.exchange import Exchange
from reliability.status_rules import Verdict, verdict_from_wire

_OPTIONAL = frozenset({"error_member", "required_text"})
_REQUIRED = frozenset({"outcome"})
_ALLOWED_OUTCOMES = (Verdict.FAILURE_CONFIRMED, Verdict.INDETERMINATE)


class BodyFinding(StrEnum):
    """Name what the rule found in a body."""

    CLEAN = auto()
    #: The body tells of a failure: the rule's outcome counts.
    FAILURE = auto()
    #: The body did not come whole, so nobody knows what it would have told.
    UNREADABLE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyRule:
    """
    Say what in a 2xx body means a failure, and which outcome that is.

    `error_member`: a JSON object has this member with a value other than null, false, 0 or empty.
    `required_text`: this text does not stand in the body.
    """

    outcome: Verdict
    error_member: str | None = None
    required_text: str | None = None

    def __post_init__(self) -> None:
        if self.outcome not in _ALLOWED_OUTCOMES:
            raise InvalidInputError(
                "body_rule.outcome", f"expected {' or '.join(_ALLOWED_OUTCOMES)}, got {self.outcome}"
            )
        if not self.error_member and not self.required_text:
            raise InvalidInputError("body_rule", "expected error_member or required_text, got neither")

    @classmethod
    def from_wire(cls, value: object) -> Self:
        """
        Read a rule as a partner's file writes it.

        Raises:
            InvalidInputError: With the field that is wrong.

        """
        found = fields.members("body_rule", value, _REQUIRED, _OPTIONAL)
        texts = {name: fields.text(name, found[name]) for name in _OPTIONAL if name in found}
        return cls(outcome=verdict_from_wire("body_rule.outcome", found["outcome"]), **texts)

    def read(self, exchange: Exchange) -> BodyFinding:
        """Look at the body of a 2xx answer."""
        if self.required_text and self.required_text.encode() in exchange.body and not self.error_member:
            return BodyFinding.CLEAN
        if not exchange.body_is_whole:
            return BodyFinding.UNREADABLE
        if self.required_text and self.required_text.encode() not in exchange.body:
            return BodyFinding.FAILURE
        if self.error_member and _has_member(exchange.body, self.error_member):
            return BodyFinding.FAILURE
        return BodyFinding.CLEAN


def _has_member(body: bytes, name: str) -> bool:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return False  # it is not the JSON the rule is about, so the status stands
    return isinstance(value, dict) and bool(value.get(name))
