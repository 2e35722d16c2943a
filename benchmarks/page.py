"""The page `docs/performance.md`, made of the results alone: every figure on it was measured by the harness."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from benchmarks import drawing
from benchmarks.document import Document, Entry, Machine
from benchmarks.figures import Cell, Chart, Goal, Table

#: Where the page and its pictures are, from the root of the checkout.
PATH: Final = Path("docs/performance.md")
PICTURES: Final = Path("docs/performance")

GOAL_COLUMNS: Final = ("goal", "promised", "measured", "met")

_INTRODUCTION: Final = """\
# Performance

Written by `make bench` from `benchmarks/results.json`; do not edit. Every figure is measured side by side: the same
machine, the same server program, the same run, contenders in alternating order, a warm-up apart, medians of all rounds.
Compare figures inside one table only; how they relate is what carries over to other machines.

- Every queue has the same effects per job: `SET NX EX` drops duplicates, a hook does nothing, the result is recorded.
  Other queues do that with two commands in the task; this project with its ledger, which keeps every promise besides.
- Jobs are enqueued first. Workers then start, and the clock runs from the end of the warm-up until nearly all are done.
- The server is the one this project embeds, the same for every queue, started anew for each run, and writes an
  append-only file, synced every second. Every queue has two worker processes unless a table says otherwise, and is set
  up as its documentation advises; the settings stand in `benchmarks/contenders.py`. What a producer is to enqueue is
  there before its clock runs.
"""


def page(document: Document) -> str:
    """Return the page's text."""
    return "\n".join(
        [_INTRODUCTION, *_goals(document), *(line for entry in document.entries for line in _entry(entry))]
    )


def pictures(document: Document) -> dict[str, str]:
    """Return the text of each picture by its file's name."""
    return {
        picture_name(entry, number): drawing.bars(chart)
        for entry in document.entries
        for number, chart in enumerate(entry.findings.charts, 1)
    }


def picture_name(entry: Entry, number: int) -> str:
    """Return the file name of an entry's chart."""
    return f"{entry.name}-{number}.svg"


def write(document: Document, root: Path) -> None:
    """Write page and pictures below the root of the checkout; pictures of charts that are gone go too."""
    folder = root / PICTURES
    folder.mkdir(parents=True, exist_ok=True)
    made = pictures(document)
    for old in folder.glob("*.svg"):
        if old.name not in made:
            old.unlink()
    for name, text in made.items():
        (folder / name).write_text(text, encoding="utf-8")
    (root / PATH).write_text(page(document), encoding="utf-8")


def goal_rows(document: Document) -> list[tuple[str, str, str, str]]:
    """Return the goals as they are shown."""
    return [(goal.name, goal.goal, _measured(goal), _verdict(goal)) for goal in document.goals]


def cell(value: Cell) -> str:
    """Return a cell as it is shown."""
    if value is None:
        return "-"
    return value if isinstance(value, str) else f"{value:,}"


def _goals(document: Document) -> Iterator[str]:
    yield "## Goals\n"
    yield from _table(GOAL_COLUMNS, goal_rows(document))
    if any(entry.quick for entry in document.entries):
        yield "Scenarios marked *quick* were measured with small counts: they show that the harness works, not more.\n"


def _entry(entry: Entry) -> Iterator[str]:
    yield f"## {entry.title}{' (quick)' if entry.quick else ''}\n"
    yield f"{entry.question}\n"
    for table in entry.findings.tables:
        yield from _titled(table)
    for number, chart in enumerate(entry.findings.charts, 1):
        yield f"![{_alternative(chart)}](performance/{picture_name(entry, number)})\n"
    for remark in entry.findings.remarks:
        yield f"{remark}\n"
    yield f"`{entry.command}`, {entry.measured_at}, {_machine(entry.machine)}.\n"


def _titled(table: Table) -> Iterator[str]:
    yield f"**{table.title}**\n"
    yield from _table(table.columns, table.rows)


def _table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    for row in rows:
        yield f"| {' | '.join(cell(value) for value in row)} |"
    yield ""


def _measured(goal: Goal) -> str:
    return "not measured" if goal.measured is None else f"{goal.measured:,} {goal.unit}"


def _verdict(goal: Goal) -> str:
    if goal.met is None:
        return "-"
    return "yes" if goal.met else "**no**"


def _alternative(chart: Chart) -> str:
    return f"{chart.title}, {chart.unit}"


def _machine(machine: Machine) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    return f"{machine.cores} x {machine.processor}, {machine.memory_gib:g} GiB, {machine.kernel}; {versions}"
