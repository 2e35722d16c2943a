"""`chio-worker enqueue`: jobs from a file or from standard input into the ledger, one JSON observation a line."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from worker.cli import options, output

app = typer.Typer(no_args_is_help=True, help="Put jobs into the ledger and wake the workers.")

#: Refused lines listed in the JSON document; the counts always cover all of them.
MAX_LISTED_PROBLEMS = 10_000


@app.command()
def settlement(
    source: Annotated[str, typer.Argument(metavar="FILE.jsonl|-", help="One observation a line; - is standard input.")],
    *,
    as_json: options.AsJson = False,
) -> None:
    """
    Enqueue settlement observations (schema chio.settle.observation.v1), one JSON object a line.

    A refused line is named on standard error with its reason and costs no other line. Running the same file again is
    safe: what is known counts as duplicate.
    """
    from worker.cli import enqueueing

    with _opened(source) as (stream, size_bytes):
        report = enqueueing.enqueue(stream, size_bytes, listed=MAX_LISTED_PROBLEMS if as_json else 0)
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
        raise typer.BadParameter(
            f"{source} cannot be read: {os.strerror(error.errno or 0)}; name a file or -"
        ) from error
    with stream:
        yield stream, path.stat().st_size
