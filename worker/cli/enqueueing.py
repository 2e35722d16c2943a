"""The work of `chio-worker enqueue`: the intake with a progress bar while it runs and a report when it ends."""

import dataclasses
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import BinaryIO

from rich import progress

from reliability.errors import ConfigurationError, StorageUnavailableError
from worker.cli import lines, output, station
from worker.cli.intake import Batch, Intake, Problem, Tally


@dataclass(slots=True, kw_only=True)
class Report:
    """Add up what became of all lines; keeps the first `listed` problems."""

    listed: int
    tally: Tally = field(default_factory=Tally)
    problems: list[Problem] = field(default_factory=list)

    def add(self, batch: Batch) -> None:
        """Count a batch in, and name its refused lines at once unless they are listed in the document."""
        self.tally += batch.tally
        self.problems += batch.problems[: max(0, self.listed - len(self.problems))]
        if not self.listed:
            for problem in batch.problems:
                output.note(f"line {problem.line}: {problem.refusal}: {problem.reason}")

    def to_json(self) -> dict[str, object]:
        """Return the document of `--json`."""
        counts = dataclasses.asdict(self.tally)
        refused = self.tally.invalid + self.tally.conflicts
        problems = [dataclasses.asdict(problem) for problem in self.problems]
        return {**counts, "problems": problems, "problems_omitted": refused - len(problems)}

    def show(self) -> None:
        """Print the counts as a table."""
        counts = dataclasses.asdict(self.tally)
        del counts["size_bytes"]
        output.show(output.table("Enqueued settlements", list(counts), [list(counts.values())]))


def enqueue(stream: BinaryIO, size_bytes: int | None, listed: int) -> Report:
    """
    Take every line of the stream in and report.

    Raises:
        ConfigurationError: The stream has no line at all.
        StorageUnavailableError: The store stopped answering; what was taken in before is told on standard error.

    """
    with station.opened() as here:
        intake = here.settlement_intake()
        report = Report(listed=listed)
        found = lines.bounded_lines(stream, intake.max_line_bytes)
        with _progress(size_bytes) as bar:
            _take(intake, found, report, bar)
    if not report.tally.lines:
        raise ConfigurationError("the input has no line, nothing was enqueued; expected one JSON observation a line")
    return report


def _take(intake: Intake, found: Iterator[lines.Line | lines.LongLine], report: Report, bar: progress.Progress) -> None:
    task = bar.tasks[0].id
    try:
        for batch in intake.take(found):
            report.add(batch)
            bar.update(task, advance=batch.tally.size_bytes, description=f"{report.tally.lines} lines")
    except StorageUnavailableError:
        output.note(f"{report.tally.lines} lines are taken in; enqueue the same input again, they count as duplicates")
        raise


@contextmanager
def _progress(size_bytes: int | None) -> Iterator[progress.Progress]:
    """Show how far the input is read, on standard error and only on a terminal."""
    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.TaskProgressColumn(),
        progress.TimeElapsedColumn(),
    )
    shown = output.console(stderr=True)
    with progress.Progress(*columns, console=shown, disable=not sys.stderr.isatty(), transient=True) as bar:
        bar.add_task("0 lines", total=size_bytes)
        yield bar
