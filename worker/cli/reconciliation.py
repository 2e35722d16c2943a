"""`chio-worker reconciliation`: what waits for a receipt or has an unknown outcome, and what to do with it."""

from enum import StrEnum
from typing import Annotated

import typer

from worker.cli import options, output

app = typer.Typer(no_args_is_help=True, help="Look at what is unconfirmed; resolve or escalate it.")


class Reason(StrEnum):
    """Name why an entry waits; `reliability.reconciliation` has the same names and takes long to import."""

    PENDING_VERIFICATION = "pending_verification"
    INDETERMINATE = "indeterminate"


class Word(StrEnum):
    """Name what an operator says of a job; `reliability.receipt` has the same names and takes long to import."""

    CONFIRMED = "confirmed"
    FAILED = "failed"


_LIST = "chio-worker reconciliation list"

Entry = Annotated[str, typer.Argument(metavar="KEY|JOB_ID", help="The entry's key, or the id of its job.")]


@app.command("list")
def list_entries(
    *,
    reason: Annotated[Reason | None, typer.Option(help="Only entries of this reason.")] = None,
    limit: options.Limit = 100,
    as_json: options.AsJson = False,
) -> None:
    """List the entries, the oldest first, and count all of them."""
    from reliability import clock
    from worker.cli import reconciling, station

    with station.opened() as here:
        found = reconciling.listed(here.storage.reconciliation, [reason] if reason else list(Reason), limit)
        counts = here.storage.reconciliation.counts()
    documents = [reconciling.to_json(request, clock.utc_now()) for request in found]
    if as_json:
        output.document({"queued": counts, "entries": documents})
    else:
        output.show(reconciling.table(counts, documents))


@app.command()
def resolve(
    entry: Entry,
    *,
    word: Annotated[Word, typer.Option("--as", help="What became of it, as you found out from the partner.")],
    yes: options.Yes = False,
    as_json: options.AsJson = False,
) -> None:
    """
    End an entry together with its job: confirmed, or failed as a dead letter.

    Exactly as if the partner's receipt said so. An attempt that is running loses its claim and records nothing more.
    """
    from worker.cli import reconciling, rows, station

    options.confirm(f"End {entry} as {word.value}?", yes=yes)
    with station.opened() as here:
        request = reconciling.find(here.storage.reconciliation, entry)
        if request is None:
            raise rows.nothing_there(f"nothing is in reconciliation as {entry!r}", _LIST)
        ended = reconciling.conclude(here.storage, request, word)
    document = {"key": request.idempotency_key, "job_id": reconciling.job_of(request), "result": ended.value}
    rows.answer(reconciling.SENTENCES[ended].format(**document), document, as_json=as_json)
    raise typer.Exit(options.EXIT_FINE if ended.is_done else options.EXIT_REFUSED)


@app.command()
def escalate(
    entry: Annotated[
        str | None, typer.Argument(metavar="[KEY|JOB_ID]", help="One entry whatever its age; without it the sweep.")
    ] = None,
    *,
    older_than_s: Annotated[
        int | None, typer.Option(min=0, help="Sweep what waited so long, in seconds; CHIO_MAX_PENDING_AGE_S if unset.")
    ] = None,
    yes: options.Yes = False,
    as_json: options.AsJson = False,
) -> None:
    """
    Give up waiting for receipts now: the deliveries are verified if the hook can, else sent again under the same id.

    Without an entry this is beat's sweep, run at once. It is safe beside any number of beats: each entry is escalated
    once.
    """
    from worker.cli import reconciling, rows, station

    options.confirm(f"Escalate {entry or 'everything that waited too long'}?", yes=yes)
    with station.opened() as here:
        if entry is None:
            age_s = here.settings.max_pending_age_s if older_than_s is None else older_than_s
            escalated = reconciling.sweep(here.storage.reconciliation, age_s)
        else:
            escalated = reconciling.escalate_one(here.storage.reconciliation, entry)
    if entry is not None and not escalated:
        raise rows.nothing_there(f"nothing waits for a receipt as {entry!r}", _LIST)
    jobs = [reconciling.job_of(request) for request in escalated]
    rows.answer(f"{len(jobs)} entries are escalated", {"escalated": len(jobs), "job_ids": jobs}, as_json=as_json)
