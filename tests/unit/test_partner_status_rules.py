"""How a partner file writes the statuses its rules are about, and what a body rule may say."""

import pytest

from reliability.body_rules import BodyRule
from reliability.errors import InvalidInputError
from reliability.status_rules import Verdict, status_rules_from_wire
from reliability.webhook_rules import STATUS_RULES


@pytest.mark.parametrize("span, bounds", [("404", (404, 404)), ("4xx", (400, 499)), ("500-503", (500, 503))])
def test_span_in_each_form(span: str, bounds: tuple[int, int]) -> None:
    """A span is one status, a class, or a first and a last one, and keeps its name."""
    (rule,) = status_rules_from_wire({span: "indeterminate"})

    assert (rule.first, rule.last) == bounds
    assert rule.name == f"partner.status.{span}"


@pytest.mark.parametrize("span", ["", "40", "4040", "4x", "6xx", "503-500", "404-", "099", "٤٠٤", "any"])
def test_span_that_is_none_is_refused(span: str) -> None:
    """A span that covers nothing names itself in the refusal."""
    with pytest.raises(InvalidInputError, match="such as 404, a class such as 4xx"):
        status_rules_from_wire({span: "indeterminate"})


@pytest.mark.parametrize("outcome", ["ok", "", 5, None, ["indeterminate"]])
def test_outcome_that_is_none_is_refused(outcome: object) -> None:
    """Only the four outcomes can be meant."""
    with pytest.raises(InvalidInputError, match=r"status_rules\.404: expected one of success_confirmed"):
        status_rules_from_wire({"404": outcome})


def test_rules_must_be_a_table() -> None:
    """Anything but a table is refused."""
    with pytest.raises(InvalidInputError, match="expected a table of statuses, got an array"):
        status_rules_from_wire([404])


def test_every_default_names_its_row() -> None:
    """Each rule of the defaults is backed by a row, and no two have one name."""
    names = [rule.name for rule in STATUS_RULES]

    assert all(rule.row is not None for rule in STATUS_RULES)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    "terms, problem",
    [
        ({"outcome": "failure_confirmed"}, "expected error_member or required_text, got neither"),
        ({"outcome": "success_confirmed", "error_member": "e"}, "failure_confirmed or indeterminate"),
        ({"error_member": "e"}, "expected the field 'outcome'"),
        ({"outcome": "indeterminate", "required_text": 5}, "expected a string"),
        ({"outcome": "indeterminate", "regex": "x"}, "expected no other field"),
        ("OK", "expected an object, got a string"),
    ],
)
def test_body_rule_that_decides_nothing_is_refused(terms: object, problem: str) -> None:
    """A body rule says what to look for and which failure that is."""
    with pytest.raises(InvalidInputError, match=problem):
        BodyRule.from_wire(terms)


def test_body_rule_is_read_from_its_table() -> None:
    """The fields of the table are the rule's."""
    rule = BodyRule.from_wire({"outcome": "indeterminate", "required_text": "OK"})

    assert rule == BodyRule(outcome=Verdict.INDETERMINATE, required_text="OK")
