"""`chio-worker partners`: check the partner file, ask what an answer would mean, and how each partner is doing."""

from pathlib import Path
from typing import Annotated

import typer

from worker.cli import options, output

app = typer.Typer(no_args_is_help=True, help="Check the partner file, explain its decisions, look after partners.")

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
def status(*, as_json: options.AsJson = False) -> None:
    """Show each partner's circuit, and whether a stop or a plea for patience holds its deliveries back."""
    from worker.cli import partner_standing, station

    with station.opened() as here:
        found = partner_standing.of_all(here.storage, here.partners())
    if as_json:
        output.document({"partners": [standing.to_json() for standing in found]})
    else:
        output.show(partner_standing.table(found))


@app.command()
def enable(
    partner: Annotated[str, typer.Argument(help="The partner's id.")], *, as_json: options.AsJson = False
) -> None:
    """
    Send to a partner again that had wanted no more deliveries, or had asked for patience.

    What waited goes out within a minute or so. A file with another URL for the partner does the same by itself.
    """
    from worker.cli import rows, station

    with station.opened() as here:
        was_held_back = here.storage.gates.resume(partner)
    if not was_held_back:
        raise rows.nothing_there(f"nothing holds back what goes to partner {partner!r}", "chio-worker partners status")
    rows.answer(f"partner {partner} is enabled", {"partner_id": partner, "enabled": True}, as_json=as_json)


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
