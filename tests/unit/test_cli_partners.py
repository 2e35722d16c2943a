"""`chio-worker partners status` and `enable`: how partners are doing, and sending to one again."""

from pathlib import Path

import pytest

from reliability.circuit import Closed, Open
from tests.support import partner_file
from tests.support.cli import CommandLine
from tests.support.delivering import delivering_line


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> CommandLine:
    """Return a command line on stores in memory with a partner file."""
    return delivering_line(monkeypatch, capsys, tmp_path)


def endpoint(tmp_path: Path) -> str:
    """Return what names the address of the partner `acme`."""
    partner = partner_file.directory(tmp_path).get("acme")
    assert partner is not None
    return partner.terms.limits.gate.endpoint


def standing(line: CommandLine) -> dict[str, object]:
    """Return what is told of the partner `acme`."""
    partners = line.run("partners", "status", "--json").document["partners"]
    assert isinstance(partners, list)
    found: dict[str, object] = next(partner for partner in partners if partner["partner_id"] == "acme")
    return found


def test_a_partner_that_is_well(line: CommandLine) -> None:
    """Its circuit is closed and nothing is held back."""
    line.storage.circuits.compare_and_set("acme", Closed(), Closed(consecutive_failures=2))

    assert standing(line) == {
        "partner_id": "acme",
        "circuit": "closed",
        "failures_in_a_row": 2,
        "opened_at": None,
        "held_back_by": None,
        "held_back_ms": None,
    }


def test_a_partner_whose_circuit_is_open(line: CommandLine) -> None:
    """The beginning of the incident is told."""
    line.storage.circuits.compare_and_set("acme", Closed(), Open(opened_at_ms=1_750_000_000_000, probe_at_ms=0))

    found = standing(line)

    assert (found["circuit"], found["opened_at"]) == ("open", "2025-06-15T15:06:40.000+00:00")


def test_a_partner_that_asked_for_patience(line: CommandLine) -> None:
    """How long its deliveries wait is told."""
    line.storage.gates.slow("acme", 120_000)

    found = standing(line)

    assert (found["held_back_by"], found["held_back_ms"]) == ("partner slowed", 120_000)


def test_a_stopped_partner_is_shown_and_enabled(line: CommandLine, tmp_path: Path) -> None:
    """A person sees the stop, enables the partner once, and then there is nothing to enable."""
    line.storage.gates.stop("acme", endpoint(tmp_path))
    shown = line.run("partners", "status")

    first, second = line.run("partners", "enable", "acme"), line.run("partners", "enable", "acme")

    assert "partner stopped" in shown.out
    assert (first.code, second.code) == (0, 1)
    assert "look with: chio-worker partners status" in second.err
    assert standing(line)["held_back_by"] is None
