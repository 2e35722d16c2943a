"""docs/partners.md says what the code does: its fields, defaults, rules and steps are compared."""

import re
import tomllib
from pathlib import Path

import pytest

from reliability.status_rules import StatusRule
from reliability.webhook_rules import ANY_STATUS, PHASE_RULES, STATUS_RULES
from tasks.partner_terms import Partner
from worker.simulators.partner_steps import Kind

PAGE = (Path(__file__).parent.parent.parent / "docs" / "partners.md").read_text(encoding="utf-8")
#: Row number -> the table's whole line.
ROWS = {int(found[1]): found[0] for found in re.finditer(r"^\| (\d+) \|.*$", PAGE, re.MULTILINE)}
#: Field -> the default as the page writes it.
FIELDS = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \| ", PAGE, re.MULTILINE))


def test_every_field_is_documented() -> None:
    """The table has the fields of a partner, no more and no less."""
    assert set(FIELDS) == set(Partner.model_fields) - {"partner_id"}


@pytest.mark.parametrize("name", sorted(set(Partner.model_fields) - {"partner_id", "retry", "breaker"}))
def test_default_of_each_field(name: str) -> None:
    """The default on the page is the one in the code."""
    field = Partner.model_fields[name]
    written = FIELDS[name].strip("`")

    if field.is_required():
        assert written == "required"
    elif field.default is None:
        assert written == "none"
    elif isinstance(field.default, bool | int | float):
        assert tomllib.loads(f"value = {written}")["value"] == field.default
    else:
        assert written in {"[]", "{}"}


def test_defaults_of_the_nested_tables() -> None:
    """The sentence below the table has the numbers of policy and breaker."""
    retry, breaker = Partner.model_fields["retry"].default, Partner.model_fields["breaker"].default
    page = " ".join(PAGE.split())

    assert (
        f"{retry.max_retries} retries, {retry.initial_backoff_ms} ms, multiplier {retry.backoff_multiplier},"
        f" cap {retry.backoff_cap_ms:,} ms"
    ) in page
    assert f"after {breaker.failure_threshold} indeterminate outcomes in a row and probes after" in page
    assert f"probes after {breaker.cool_down_ms:,} ms" in page


@pytest.mark.parametrize("rule", [*STATUS_RULES, ANY_STATUS], ids=lambda rule: rule.name)
def test_every_status_rule_stands_in_its_row(rule: StatusRule) -> None:
    """Each default rule is named in the row that backs it."""
    assert f"`{rule.name}`" in ROWS[rule.row or 0]


@pytest.mark.parametrize("phase", sorted(PHASE_RULES))
def test_every_phase_rule_stands_in_its_row(phase: str) -> None:
    """Each phase without a status is named in the row that backs it."""
    assert f"`phase.{phase}`" in ROWS[{each.value: rule.row for each, rule in PHASE_RULES.items()}[phase]]


@pytest.mark.parametrize("kind", sorted(set(Kind) - {Kind.STATUS}))
def test_every_step_of_the_simulator_is_documented(kind: str) -> None:
    """Each step can be found by its name."""
    assert re.search(rf"`{kind}[:`]", PAGE)
