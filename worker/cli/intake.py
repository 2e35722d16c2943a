"""
Jobs from lines into the ledger: each line is checked, then enqueued with its batch.

One bad line costs only itself. Called by `chio-worker enqueue`; knows neither Celery nor Redis.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import TypeVar, assert_never

from reliability.errors import AdmissionConflictError, InvalidInputError
from storage.jobs import Admission, Admitted, Conflict, Duplicate, NewJob
from worker.cli.lines import Line, LongLine

#: One exchange with the store admits so many jobs; more would hold the store for too long at a time.
BATCH_LINES = 500
#: JSON may write one byte of a canonical text as six (`\u0041`); a longer line cannot hold an admissible payload.
ESCAPE_FACTOR = 6


Read = TypeVar("Read")


class Refusal(StrEnum):
    """Name why a line was refused."""

    INVALID = "invalid"
    CONFLICT = "conflict"
    #: A receipt of nothing that was sent.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Say which line was refused and why; never what it held."""

    line: int
    refusal: Refusal
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Count what became of lines: `lines == admitted + duplicates + conflicts + invalid + unknown`."""

    lines: int = 0
    size_bytes: int = 0
    admitted: int = 0
    duplicates: int = 0
    conflicts: int = 0
    invalid: int = 0
    unknown: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        """Add two counts up."""
        return Tally(
            lines=self.lines + other.lines,
            size_bytes=self.size_bytes + other.size_bytes,
            admitted=self.admitted + other.admitted,
            duplicates=self.duplicates + other.duplicates,
            conflicts=self.conflicts + other.conflicts,
            invalid=self.invalid + other.invalid,
            unknown=self.unknown + other.unknown,
        )

    @property
    def all_taken(self) -> bool:
        """Tell whether no line was refused."""
        return not self.refused

    @property
    def refused(self) -> int:
        """Count the lines that were refused."""
        return self.conflicts + self.invalid + self.unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Report one batch: its counts and its refused lines in order."""

    tally: Tally
    problems: list[Problem] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """
    Take lines in, whatever kind of job they hold.

    `read` makes a job of a line or raises `InvalidInputError`; `enqueue` admits a batch of jobs while they are read,
    publishes for the new ones, and answers in order.
    """

    read: Callable[[bytes], NewJob]
    enqueue: Callable[[Iterable[NewJob]], list[Admission]]
    max_payload_bytes: int

    @property
    def max_line_bytes(self) -> int:
        """Return the length past which a line cannot hold an admissible payload."""
        return self.max_payload_bytes * ESCAPE_FACTOR

    def take(self, lines: Iterable[Line | LongLine]) -> Iterator[Batch]:
        """
        Admit the lines batch by batch and report each one as soon as the ledger has it.

        Raises:
            StorageUnavailableError: The batches reported so far are in the ledger; the one after them may be in part.

        """
        source = iter(lines)
        while batch := list(islice(source, BATCH_LINES)):
            yield self._take_batch(batch)

    def _take_batch(self, batch: list[Line | LongLine]) -> Batch:
        jobs: list[tuple[Line | LongLine, NewJob]] = []
        invalid: list[Problem] = []
        admissions = self.enqueue(self._readable(batch, jobs, invalid))
        tally, conflicts = _told(jobs, admissions)
        size_bytes = sum(line.size_bytes for line in batch)
        return Batch(
            tally=tally + Tally(lines=len(batch), size_bytes=size_bytes, invalid=len(invalid)),
            problems=sorted(invalid + conflicts, key=lambda problem: problem.line),
        )

    def _readable(
        self, batch: list[Line | LongLine], jobs: list[tuple[Line | LongLine, NewJob]], invalid: list[Problem]
    ) -> Iterator[NewJob]:
        """Yield the jobs of the lines that can be read, and note what became of each line."""
        for line in batch:
            found = read_or_refused(line, self.read, self.max_line_bytes)
            if isinstance(found, Problem):
                invalid.append(found)
            else:
                jobs.append((line, found))
                yield found


def read_or_refused(line: Line | LongLine, read: Callable[[bytes], Read], max_line_bytes: int) -> Read | Problem:
    """Read a line, or say why it is refused."""
    if isinstance(line, LongLine):
        reason = f"line: expected at most {max_line_bytes} bytes, got {line.size_bytes}; send less"
        return Problem(line=line.number, refusal=Refusal.INVALID, reason=reason)
    try:
        return read(line.content)
    except InvalidInputError as error:
        return Problem(line=line.number, refusal=Refusal.INVALID, reason=str(error))


def _told(jobs: list[tuple[Line | LongLine, NewJob]], admissions: list[Admission]) -> tuple[Tally, list[Problem]]:
    tally, conflicts = Tally(), []
    for (line, job), admission in zip(jobs, admissions, strict=True):
        match admission:
            case Admitted():
                tally += Tally(admitted=1)
            case Duplicate():
                tally += Tally(duplicates=1)
            case Conflict():
                tally += Tally(conflicts=1)
                conflicts.append(_conflict(line.number, job))
            case _:
                assert_never(admission)
    return tally, conflicts


def _conflict(line: int, job: NewJob) -> Problem:
    return Problem(line=line, refusal=Refusal.CONFLICT, reason=str(AdmissionConflictError(job.job_id)))
