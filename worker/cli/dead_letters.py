"""`chio-worker dead-letters`: what could not succeed, and what to do with it."""

from typing import Annotated

import typer

from worker.cli import options, output

app = typer.Typer(no_args_is_help=True, help="Look at dead letters; replay or clear them.")

ReceiptId = Annotated[str, typer.Argument(help="The receipt id of the dead letter.")]


@app.command("list")
def list_dead_letters(
    *,
    limit: options.Limit = 100,
    offset: Annotated[int, typer.Option(min=0, help="Leave out so many from the start.")] = 0,
    as_json: options.AsJson = False,
) -> None:
    """List dead letters in the order of (finalized_at, receipt_id)."""
    from worker.cli import rows, station

    with station.opened() as here:
        records = here.storage.dead_letters.list(limit, offset)
        stored = here.storage.dead_letters.count()
    if as_json:
        output.document({"stored": stored, "records": [record.to_wire() for record in records]})
    else:
        output.show(rows.dead_letter_table(f"Dead letters, {len(records)} of {stored}", records))


@app.command()
def show(receipt_id: ReceiptId, *, as_json: options.AsJson = False) -> None:
    """Show one dead letter; with --json its canonical bytes as they were published."""
    from worker.cli import rows, station

    with station.opened() as here:
        record = here.storage.dead_letters.get(receipt_id)
        has_payload = here.storage.dead_letters.payload(receipt_id) is not None
    if record is None:
        raise rows.nothing_there(f"no dead letter for receipt {receipt_id!r}", "chio-worker dead-letters list")
    if as_json:
        output.line(record.canonical_json().decode())
        return
    output.show(rows.dead_letter_table(f"Dead letter of {receipt_id}", [record]))
    output.line(
        "its payload is kept, it can be replayed" if has_payload else "its payload is gone: it can only be cleared"
    )


@app.command()
def replay(receipt_id: ReceiptId, *, yes: options.Yes = False, as_json: options.AsJson = False) -> None:
    """Run a dead job again from its first attempt, with the same bytes and the same idempotency key."""
    from worker.cli import rows, station

    options.confirm(f"Run {receipt_id} again?", yes=yes)
    with station.opened() as here:
        woken = here.replay(receipt_id)
    if not woken:
        raise rows.nothing_there(
            f"no dead letter with a payload for receipt {receipt_id!r}", "chio-worker dead-letters list"
        )
    rows.answer(f"{receipt_id} runs again", {"receipt_id": receipt_id, "replayed": True}, as_json=as_json)


@app.command()
def clear(receipt_id: ReceiptId, *, yes: options.Yes = False, as_json: options.AsJson = False) -> None:
    """Remove a dead letter and its payload for good; the receipt may be enqueued again afterwards."""
    from worker.cli import rows, station

    options.confirm(f"Remove the dead letter of {receipt_id} and its payload for good?", yes=yes)
    with station.opened() as here:
        removed = here.storage.dead_letters.clear(receipt_id)
    if not removed:
        raise rows.nothing_there(f"no dead letter for receipt {receipt_id!r}", "chio-worker dead-letters list")
    rows.answer(
        f"the dead letter of {receipt_id} is gone", {"receipt_id": receipt_id, "cleared": True}, as_json=as_json
    )
