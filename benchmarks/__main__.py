"""`python -m benchmarks`: run the scenarios, write `results.json` and `docs/performance.md`, print the goals."""

import shutil
import signal
import sys
import tempfile
import time
from datetime import UTC
from pathlib import Path
from typing import Annotated, Final, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from benchmarks import bench, catalogue, contenders, document, machine, page, scales
from benchmarks.bench import Scenario
from benchmarks.document import Document, Entry, Machine
from benchmarks.fleet import FleetError
from reliability.clock import utc_now

_HOME: Final = Path(".chio/benchmarks")
_CONSOLE: Final = Console(markup=False, highlight=False, width=None if sys.stdout.isatty() else 160)
#: Told by `make bench` and repeated in the results.
_COMMAND: Final = "make bench"


def measure(
    *,
    only: Annotated[list[str] | None, typer.Option(help="Run this scenario alone; may be given several times.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small counts: shows that everything works.")] = False,
    discard: Annotated[bool, typer.Option("--discard", help="Write neither results nor page.")] = False,
    names: Annotated[bool, typer.Option("--list", help="List the scenarios and end.")] = False,
) -> None:
    """Measure this project and other queues side by side."""
    if names:
        for scenario in catalogue.SCENARIOS:
            print(f"{scenario.name}: {scenario.missing() or scenario.question}")
        return
    signal.signal(signal.SIGTERM, _end)
    entries = _measured(_chosen(only), scales.QUICK if quick else scales.FULL, _command(only, quick=quick))
    results = document.read(document.PATH).with_entries(entries, catalogue.NAMES)
    if not discard:
        document.PATH.write_text(results.to_json(), encoding="utf-8")
        page.write(results, contenders.ROOT)
    _show(Document(entries=tuple(entries)))


def _chosen(only: list[str] | None) -> list[Scenario]:
    unknown = sorted(set(only or ()) - set(catalogue.NAMES))
    if unknown:
        raise typer.BadParameter(f"no scenario {unknown[0]!r}; expected one of: {', '.join(catalogue.NAMES)}")
    return [scenario for scenario in catalogue.SCENARIOS if not only or scenario.name in only]


def _command(only: list[str] | None, *, quick: bool) -> str:
    arguments = " ".join(f"--only {name}" for name in only or ())
    return " ".join(filter(None, (_COMMAND, "QUICK=1" if quick else "", f'ARGS="{arguments}"' if arguments else "")))


def _measured(scenarios: list[Scenario], scale: scales.Scale, command: str) -> list[Entry]:
    if absent := [str(python) for python in contenders.PEER_PYTHONS.values() if not python.exists()]:
        raise typer.BadParameter(f"the other queues are not installed ({absent[0]} is missing); call `make bench`")
    measured_on = machine.examine(contenders.PEER_PYTHONS)
    _HOME.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=_HOME)).resolve()
    entries = []
    for scenario in scenarios:
        if missing := scenario.missing():
            _CONSOLE.print(f"{scenario.name}: left out, {missing}")
            continue
        entries.append(_entry(scenario, scale, folder / scenario.name, command, measured_on))
    shutil.rmtree(folder)
    return entries


def _entry(scenario: Scenario, scale: scales.Scale, folder: Path, command: str, measured_on: Machine) -> Entry:
    began_s = time.monotonic()
    _CONSOLE.print(f"{scenario.name}: {scenario.title}")
    try:
        with bench.opened(scale, folder, lambda text: _CONSOLE.print(f"  {text}")) as opened:
            findings = scenario.run(opened)
    except FleetError as error:
        sys.stderr.write(f"{scenario.name}: {error}\nEverything that was written is in {folder}\n")
        raise typer.Exit(1) from error
    _CONSOLE.print(f"  took {time.monotonic() - began_s:.0f} s")
    return Entry(
        name=scenario.name,
        title=scenario.title,
        question=scenario.question,
        command=command,
        measured_at=utc_now().astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        quick=scale.quick,
        machine=measured_on,
        findings=findings,
    )


def _show(results: Document) -> None:
    for entry in results.entries:
        for found in entry.findings.tables:
            shown = Table(title=f"{entry.title}: {found.title}", title_justify="left")
            for column in found.columns:
                shown.add_column(column)
            for row in found.rows:
                shown.add_row(*(page.cell(cell) for cell in row))
            _CONSOLE.print(shown)
    goals = Table(title="Goals", title_justify="left")
    for column in page.GOAL_COLUMNS:
        goals.add_column(column)
    for row in page.goal_rows(results):
        goals.add_row(*row)
    _CONSOLE.print(goals)


def _end(*_: object) -> NoReturn:
    # Leaves every block, so that no process stays behind.
    sys.exit(1)


if __name__ == "__main__":
    typer.run(measure)
