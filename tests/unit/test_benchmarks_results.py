"""What the benchmarks write: goals that say whether they are met, a document that is read back, a page made of it."""

import json
from pathlib import Path

import pytest

from benchmarks import catalogue, contenders, document, drawing, page
from benchmarks.document import Document, Entry, Machine
from benchmarks.figures import Chart, Findings, Goal, Table

MACHINE = Machine(processor="abacus", cores=2, memory_gib=24, kernel="Linux 6", versions={"Python": "3.11.7"})


def entry(name: str = "settle", *, quick: bool = False, findings: Findings | None = None) -> Entry:
    """Make one scenario's entry."""
    return Entry(
        name=name,
        title=f"Title of {name}",
        question="How fast?",
        command="make bench",
        measured_at="2026-01-01 00:00 UTC",
        quick=quick,
        machine=MACHINE,
        findings=findings or Findings(),
    )


@pytest.mark.parametrize(
    "goal, met",
    [
        (Goal.at_least("rate", 2.5, "x", 2.5), True),
        (Goal.at_least("rate", 2.5, "x", 2.4999), False),
        (Goal.at_most("slower", 2, "x", 2.0), True),
        (Goal.at_most("slower", 2, "x", 2.0001), False),
        (Goal.below("memory", 20, "MB", 19.9), True),
        (Goal.below("memory", 20, "MB", 20.0), False),
        (Goal.at_least("rate", 2.5, "x", None), None),
    ],
)
def test_goal_is_met_by_what_was_measured(*, goal: Goal, met: bool | None) -> None:
    """A bound itself counts as met where it is included; what was not measured is neither met nor missed."""
    assert goal.met is met


def test_goal_is_judged_before_rounding() -> None:
    """A figure that is rounded up to its bound does not meet it."""
    goal = Goal.at_least("rate", 2.5, "x", 2.4999)

    assert (goal.measured, goal.met) == (2.5, False)


def test_row_of_another_width_is_refused() -> None:
    """A table takes no row that leaves a column out."""
    with pytest.raises(ValueError, match="expected 2 cells"):
        Table.of("rates", ("queue", "rate"), [("chio-worker",)])


def test_document_is_read_back() -> None:
    """What is written to the file is what is read from it, and the goals stand on top."""
    goal = Goal.at_least("rate", 1, "x", 2.0)
    table, chart = Table.of("t", ("a", "b"), [("x", 1.5), (None, 3)]), Chart.of("c", "jobs/s", [("x", 2.0)])
    written = Document(entries=(entry(findings=Findings(goals=(goal,), tables=(table,), charts=(chart,))),))

    text = written.to_json()

    assert Document.from_json(text) == written
    assert json.loads(text)["goals"] == [
        {"name": "rate", "goal": "at least 1 x", "measured": 2.0, "unit": "x", "met": True}
    ]


def test_new_entries_replace_old_ones_in_order() -> None:
    """A run of one scenario replaces its entry, keeps the others, and puts all in the catalogue's order."""
    before = Document(entries=(entry("b", quick=True), entry("gone"), entry("c")))

    after = before.with_entries([entry("b"), entry("a")], ("a", "b", "c"))

    assert [(each.name, each.quick) for each in after.entries] == [("a", False), ("b", False), ("c", False)]


def test_missing_file_is_an_empty_document(tmp_path: Path) -> None:
    """The first run begins with nothing."""
    assert document.read(tmp_path / "results.json") == Document()


def test_page_shows_goals_tables_and_marks_quick_runs() -> None:
    """The page names each goal with its verdict, each cell, and which scenarios were measured with small counts."""
    goals = (Goal.at_least("fast", 2, "x", 1.0), Goal.below("small", 20, "MB", None))
    table = Table.of("Rates", ("queue", "jobs/s"), [("chio-worker", 12_345.0)])

    text = page.page(Document(entries=(entry(quick=True, findings=Findings(goals=goals, tables=(table,))),)))

    assert "| fast | at least 2 x | 1.0 x | **no** |" in text
    assert "| small | under 20 MB | not measured | - |" in text
    assert "| chio-worker | 12,345 |" in text
    assert "## Title of settle (quick)" in text


def test_bars_are_as_long_as_their_values() -> None:
    """The longest bar takes the whole width, half its value half of it, and labels are escaped."""
    picture = drawing.bars(Chart.of("rates <1>", "jobs/s", [("chio-worker", 200.0), ("a & b", 100.0)]))

    assert 'width="440" height="22" fill="#1f6f5c"' in picture
    assert 'width="220" height="22" fill="#9aa5b1"' in picture
    assert "rates &lt;1&gt;" in picture
    assert "a &amp; b" in picture


def test_chart_without_values_is_drawn() -> None:
    """Bars of nothing have no length and divide by nothing."""
    picture = drawing.bars(Chart.of("none", "jobs/s", [("a", 0.0)]))

    assert 'width="0" height="22"' in picture


def test_page_and_pictures_are_those_of_the_results() -> None:
    """The page in the documentation is what the harness writes from the results beside it."""
    results = document.read(contenders.ROOT / document.PATH)

    written = (contenders.ROOT / page.PATH).read_text(encoding="utf-8")
    pictures = {path.name: path.read_text(encoding="utf-8") for path in (contenders.ROOT / page.PICTURES).glob("*.svg")}

    assert written == page.page(results)
    assert pictures == page.pictures(results)


def test_scenarios_have_names_of_their_own() -> None:
    """Each scenario file is listed once, under a name that can stand in a file's name."""
    files = {path.stem for path in (contenders.ROOT / "benchmarks" / "scenarios").glob("*.py")}

    assert len(set(catalogue.NAMES)) == len(catalogue.SCENARIOS) == len(files)
    assert all(name.replace("-", "").isalpha() for name in catalogue.NAMES)


@pytest.mark.parametrize("group", sorted(contenders.PEER_PYTHONS))
def test_requirements_of_other_queues_are_pinned(group: str) -> None:
    """The other queues are pinned with hashes, and no address of a package index stands there."""
    text = (contenders.ROOT / "requirements" / f"{group}.txt").read_text(encoding="utf-8")

    assert "--hash=sha256:" in text
    assert "://" not in text
