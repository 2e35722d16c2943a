"""The work of `chio-worker enqueue`: the intake with a progress bar while it runs and a report when it ends."""

import dataclasses
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import BinaryIO, Final, Protocol

from rich import progress

from reliability.errors import ConfigurationError, StorageUnavailableError
from worker.cli import lines, output, station
from worker.cli.intake import Batch, Problem, Tally
from worker.cli.station import Station


class TakesLines(Protocol):
    """Take lines in, batch by batch."""

    @property
    def max_line_bytes(self) -> int:
        """Return the length past which a line cannot be taken in."""
        ...

    def take(self, lines: Iterable[lines.Line | lines.LongLine]) -> Iterator[Batch]:
        """Take the lines in and report each batch as soon as it is safe."""
        ...


_JOB_COUNTS: Final = {name: name for name in ("lines", "size_bytes", "admitted", "duplicates", "conflicts", "invalid")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """Say what kind of lines a stream holds and what takes them in."""

    title: str
    #: What a line was expected to be, as a sentence ends.
    line: str
    intake: Callable[[Station], TakesLines]
    #: The counts that mean something for these lines: the name that is shown, and the tally's.
    counts: Mapping[str, str] = field(default_factory=lambda: _JOB_COUNTS)

    def counted(self, tally: Tally) -> dict[str, int]:
        """Return the counts under the names that are shown."""
        found = dataclasses.asdict(tally)
        return {shown: found[name] for shown, name in self.counts.items()}


SETTLEMENTS: Final = Feed(title="Enqueued settlements", line="one JSON observation", intake=Station.settlement_intake)
DELIVERIES: Final = Feed(title="Enqueued deliveries", line="one JSON delivery", intake=Station.delivery_intake)
RECEIPTS: Final = Feed(
    title="Receipts handed in",
    line="one JSON receipt",
    intake=Station.receipt_intake,
    counts={
        "lines": "lines",
        "size_bytes": "size_bytes",
        "resolved": "admitted",
        "repeated": "duplicates",
        "conflicting": "conflicts",
        "unknown": "unknown",
        "invalid": "invalid",
    },
)


@dataclass(slots=True, kw_only=True)
class Report:
    """Add up what became of all lines; keeps the first `listed` problems."""

    feed: Feed
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
        counts = self.feed.counted(self.tally)
        problems = [dataclasses.asdict(problem) for problem in self.problems]
        return {**counts, "problems": problems, "problems_omitted": self.tally.refused - len(problems)}

    def show(self) -> None:
        """Print the counts as a table."""
        counts = self.feed.counted(self.tally)
        del counts["size_bytes"]
        output.show(output.table(self.feed.title, list(counts), [list(counts.values())]))


def enqueue(feed: Feed, stream: BinaryIO, size_bytes: int | None, listed: int) -> Report:
    """
    Take every line of the stream in and report.

    Raises:
        ConfigurationError: The stream has no line at all.
        StorageUnavailableError: The store stopped answering; what was taken in before is told on standard error.

    """
    with station.opened() as here:
        intake = feed.intake(here)
        report = Report(feed=feed, listed=listed)
        found = lines.bounded_lines(stream, intake.max_line_bytes)
        with _progress(size_bytes) as bar:
            _take(intake, found, report, bar)
    if not report.tally.lines:
        raise ConfigurationError(f"the input has no line, nothing was enqueued; expected {feed.line} a line")
    return report


def _take(
    intake: TakesLines, found: Iterator[lines.Line | lines.LongLine], report: Report, bar: progress.Progress
) -> None:
    task = bar.tasks[0].id
    try:
        for batch in intake.take(found):
            report.add(batch)
            bar.update(task, advance=batch.tally.size_bytes, description=f"{report.tally.lines} lines")
    except StorageUnavailableError:
        output.note(f"{report.tally.lines} lines are taken in; enqueue the same input again, they count once")
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
