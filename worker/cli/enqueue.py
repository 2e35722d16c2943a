"""`chio-worker enqueue`: jobs and receipts from a file or from standard input, one JSON object a line."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Never

import typer

from reliability.errors import ConfigurationError
from worker.cli import options, output

if TYPE_CHECKING:
    from worker.cli.enqueueing import Feed

app = typer.Typer(no_args_is_help=True, help="Put jobs into the ledger, or receipts to their jobs.")

#: Refused lines listed in the JSON document; the counts always cover all of them.
MAX_LISTED_PROBLEMS = 10_000

Source = Annotated[str, typer.Argument(metavar="FILE.jsonl|-", help="One object a line; - is standard input.")]


@app.command()
def settlement(source: Source, *, as_json: options.AsJson = False) -> None:
    """
    Enqueue settlement observations (schema chio.settle.observation.v1), one JSON object a line.

    A refused line is named on standard error with its reason and costs no other line. Running the same file again is
    safe: what is known counts as duplicate.
    """
    from worker.cli import enqueueing

    _enqueue(enqueueing.SETTLEMENTS, source, as_json=as_json)


@app.command()
def delivery(source: Source, *, as_json: options.AsJson = False) -> None:
    """
    Enqueue deliveries (schema chio.deliver.request.v1), one JSON object a line.

    Refused, each with its reason: an unknown or disabled partner, a body that is too large, an expired delivery,
    a header the partner does not allow. Running the same file again is safe: what is known counts as duplicate.
    """
    from worker.cli import enqueueing

    _enqueue(enqueueing.DELIVERIES, source, as_json=as_json)


@app.command()
def receipts(source: Source, *, as_json: options.AsJson = False) -> None:
    """
    Hand in partners' receipts, one JSON object a line: as the partner signed it, or as the intake vouches for it.

    A line is {partner_id, headers, body} exactly as the partner sent it, or a receipt (schema chio.deliver.receipt.v1).
    Each ends its job at once, confirmed or as a dead letter. The same receipt twice changes nothing; one that disagrees
    with how its job ended, or names nothing that was sent, changes nothing either and is kept in quarantine.
    """
    from worker.cli import enqueueing

    _enqueue(enqueueing.RECEIPTS, source, as_json=as_json)


def _enqueue(feed: "Feed", source: str, *, as_json: bool) -> Never:
    from worker.cli import enqueueing

    with _opened(source) as (stream, size_bytes):
        report = enqueueing.enqueue(feed, stream, size_bytes, listed=MAX_LISTED_PROBLEMS if as_json else 0)
    if as_json:
        output.document(report.to_json())
    else:
        report.show()
    raise typer.Exit(options.EXIT_FINE if report.tally.all_taken else options.EXIT_REFUSED)


@contextmanager
def _opened(source: str) -> Iterator[tuple[BinaryIO, int | None]]:
    """Open the file, or standard input whose size nobody knows."""
    if source == "-":
        yield sys.stdin.buffer, None
        return
    path = Path(source)
    try:
        stream = path.open("rb")
    except OSError as error:
        raise ConfigurationError(
            f"{source} cannot be read: {error.strerror}; name a file, or - for standard input"
        ) from error
    with stream:
        yield stream, path.stat().st_size
