"""`chio-worker quarantine`: messages that nobody could read, kept with their bytes for a person to look at."""

from pathlib import Path
from typing import Annotated

import typer

from reliability.errors import ConfigurationError
from worker.cli import options, output

app = typer.Typer(no_args_is_help=True, help="Look at messages that nobody could read; export, requeue or purge them.")

EntryId = Annotated[str, typer.Argument(help="The id that `chio-worker quarantine list` shows.")]
LIST_COMMAND = "chio-worker quarantine list"


@app.command("list")
def list_entries(
    *,
    limit: options.Limit = 100,
    offset: Annotated[int, typer.Option(min=0, help="Leave out so many from the start.")] = 0,
    as_json: options.AsJson = False,
) -> None:
    """List quarantined messages, oldest first, without their bytes."""
    from worker.cli import rows, station

    with station.opened() as here:
        entries = here.storage.quarantine.list(limit, offset)
        counts = here.storage.quarantine.counts()
    if as_json:
        document = {"entries": [rows.quarantined_to_json(entry) for entry in entries], "kept": counts.entries}
        output.document({**document, "dropped": counts.dropped})
    else:
        output.show(rows.quarantine_table(f"Quarantine, {len(entries)} of {counts.entries}", entries))


@app.command()
def show(entry_id: EntryId, *, as_json: options.AsJson = False) -> None:
    """Show one quarantined message: where it came from, why it is here, and the digest of its bytes."""
    from worker.cli import rows, station

    with station.opened() as here:
        entry = here.storage.quarantine.get(entry_id)
    if entry is None:
        raise rows.nothing_there(f"nothing is quarantined as {entry_id!r}", LIST_COMMAND)
    if as_json:
        output.document(rows.quarantined_to_json(entry))
    else:
        output.show(rows.facts(f"Quarantined message {entry_id}", rows.quarantined_to_json(entry)))


@app.command()
def export(
    entry_id: EntryId,
    target: Annotated[Path, typer.Option("--output", "-o", dir_okay=False, help="File to write; it must not exist.")],
) -> None:
    """Write a quarantined message's bytes to a new file, as they came. They may hold a payload."""
    from worker.cli import rows, station

    with station.opened() as here:
        raw = here.storage.quarantine.raw(entry_id)
    if raw is None:
        raise rows.nothing_there(f"nothing is quarantined as {entry_id!r}", LIST_COMMAND)
    try:
        with target.open("xb") as file:
            file.write(raw)
    except OSError as error:
        raise ConfigurationError(f"{target} cannot be written: {error.strerror}; name a new file") from error
    output.note(f"{len(raw)} bytes are in {target}")


@app.command()
def requeue(entry_id: EntryId, *, yes: options.Yes = False, as_json: options.AsJson = False) -> None:
    """Publish a quarantined message to its queue again and take it out of the quarantine."""
    from worker.cli import rows, station

    options.confirm(f"Publish message {entry_id} again?", yes=yes)
    with station.opened() as here:
        queue = here.requeue(entry_id)
    if queue is None:
        raise rows.nothing_there(f"nothing is quarantined as {entry_id!r}", LIST_COMMAND)
    rows.answer(f"{entry_id} is back on queue {queue}", {"entry_id": entry_id, "queue": queue}, as_json=as_json)


@app.command()
def purge(
    entry_id: Annotated[str | None, typer.Argument(help="One message; without it, all of them.")] = None,
    *,
    yes: options.Yes = False,
    as_json: options.AsJson = False,
) -> None:
    """Remove one quarantined message, or all of them, for good."""
    from worker.cli import rows, station

    options.confirm(f"Remove {entry_id or 'every quarantined message'} for good?", yes=yes)
    with station.opened() as here:
        stored = here.storage.quarantine
        removed = stored.purge() if entry_id is None else int(stored.remove(entry_id))
    if entry_id is not None and not removed:
        raise rows.nothing_there(f"nothing is quarantined as {entry_id!r}", LIST_COMMAND)
    rows.answer(f"{removed} quarantined messages are gone", {"removed": removed}, as_json=as_json)
