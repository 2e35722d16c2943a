"""How jobs and dead letters look to a person and in JSON: ids, codes, digests and times, never a payload."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

import typer
from rich.table import Table

from reliability.dead_letter import DeadLetterRecord
from reliability.errors import ConfigurationError
from storage.jobs import JobRow, JobState
from storage.quarantine import QuarantineEntry
from worker.cli import options, output


def nothing_there(what: str, next_command: str) -> typer.Exit:
    """Say on standard error that there is nothing by that name and where to look; raise what is returned."""
    output.note(f"{what}; look with: {next_command}")
    return typer.Exit(options.EXIT_REFUSED)


def answer(text: str, value: Mapping[str, object], *, as_json: bool) -> None:
    """Confirm a change as a sentence or as a document."""
    if as_json:
        output.document(value)
    else:
        output.line(text)


def job_state(name: str) -> JobState:
    """
    Read a state's name.

    Raises:
        ConfigurationError: Naming the states there are.

    """
    if name not in set(JobState):
        raise ConfigurationError(f"expected one of {', '.join(JobState)}, got: {name!r}")
    return JobState(name)


def job_to_json(row: JobRow) -> dict[str, object]:
    """Return a row's facts with readable instants."""
    return {
        "job_id": row.job_id,
        "kind": row.kind.value,
        "queue": row.queue,
        "state": row.state.value,
        "attempt": row.attempt,
        "version": row.version,
        "due_at": instant(row.due_at_ms),
        "admitted_at": instant(row.admitted_at_ms),
        "first_attempt_at": instant(row.first_attempt_at_ms),
        "finalized_at": row.finalized_at,
        "owner": row.owner,
        "lease_until": instant(row.lease_until_ms),
        "wakeups": row.wakeups,
        "payload_sha256": row.digest.hex(),
    }


def job_table(title: str, found: Iterable[JobRow]) -> Table:
    """Return a table of jobs."""
    columns = ("job_id", "kind", "attempt", "due_at", "owner", "lease_until", "wakeups")
    documents = [job_to_json(row) for row in found]
    return output.table(title, columns, [[document[column] for column in columns] for document in documents])


def dead_letter_table(title: str, records: Iterable[DeadLetterRecord]) -> Table:
    """Return a table of dead letters; the digest of the detail stands in hex."""
    rows = [
        (
            record.receipt_id,
            record.finalized_at,
            record.attempts,
            record.reason.code.value,
            record.reason.detail_sha256.hex(),
        )
        for record in records
    ]
    return output.table(title, ("receipt_id", "finalized_at", "attempts", "code", "detail_sha256"), rows)


def facts(title: str, value: Mapping[str, object]) -> Table:
    """Return a table of one thing, a fact a line."""
    return output.table(title, ("", "value"), value.items())


def instant(at_ms: int | None) -> str | None:
    """Write an instant of the ledger's clock in UTC, to the millisecond."""
    if at_ms is None:
        return None
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


def quarantined_to_json(entry: QuarantineEntry) -> dict[str, object]:
    """Return what is known of a quarantined message, without its bytes."""
    return {
        "entry_id": entry.entry_id,
        "queue": entry.queue,
        "reason": entry.reason,
        "received_at": instant(entry.received_at_ms),
        "size_bytes": entry.size_bytes,
        "sha256": entry.sha256,
    }


def quarantine_table(title: str, entries: Iterable[QuarantineEntry]) -> Table:
    """Return a table of quarantined messages."""
    columns = ("entry_id", "queue", "reason", "received_at", "size_bytes", "sha256")
    documents = [quarantined_to_json(entry) for entry in entries]
    return output.table(title, columns, [[document[column] for column in columns] for document in documents])
