"""`chio-worker partners`: check the partner file, and ask what an answer of a partner would mean."""

from pathlib import Path
from typing import Annotated

import typer

from worker.cli import options, output

app = typer.Typer(no_args_is_help=True, help="Check the partner file and explain its decisions.")

_WHICH_FILE = "The partner file; without it the one that CHIO_PARTNERS_FILE names."


@app.command()
def check(
    file: Annotated[Path | None, typer.Argument(help=_WHICH_FILE)] = None, *, as_json: options.AsJson = False
) -> None:
    """
    Read the partner file with its secrets and certificates, as a worker does at start.

    Every problem is told at once; exit code 2 says that the file does not hold and a worker would keep the old one.
    """
    from worker.cli import partner_listing

    directory = partner_listing.loaded(file)
    if as_json:
        output.document(partner_listing.listed(directory))
    else:
        output.show(partner_listing.table(directory))


@app.command()
def explain(  # noqa: PLR0913 - one parameter per option
    partner: Annotated[str, typer.Argument(help="The partner's id.")],
    answer: Annotated[
        str,
        typer.Argument(
            metavar="STATUS|PHASE",
            help="A status such as 503, or where it ended: policy, dns, connect, tls, sending, sent.",
        ),
    ],
    headers: Annotated[
        list[str] | None,
        typer.Argument(metavar="[HEADER]...", help='Headers of the answer, such as "Retry-After: 120".'),
    ] = None,
    *,
    file: Annotated[Path | None, typer.Option("--file", help=_WHICH_FILE)] = None,
    attempt: Annotated[int, typer.Option(min=0, max=32, help="Number of the attempt that met it, from 0.")] = 0,
    body: Annotated[str, typer.Option(help="The answer's body, for a partner with a body rule.")] = "",
    as_json: options.AsJson = False,
) -> None:
    """
    Say what an answer of the partner means, by which rule, and when the remaining attempts would run.

    The times hold if every further attempt meets the same answer at once; jitter comes on top.
    """
    from worker.cli import partner_explaining, partner_listing

    asked = partner_explaining.Answer(text=answer, headers=headers or [], body=body)
    explanation = partner_explaining.explained(partner_listing.loaded(file), partner, asked, attempt)
    if as_json:
        output.document(explanation.to_json())
    else:
        explanation.show()
