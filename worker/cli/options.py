"""The options that many commands share, each with one meaning everywhere, and the question before something final."""

import sys
from typing import Annotated

import typer

from reliability.errors import ConfigurationError

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Show at most so many.")]

#: Exit codes, the same for every command; `docs/operations.md` explains them.
EXIT_FINE = 0
#: The command worked and the answer is no: refused lines, nothing by that id, numbers that do not add up.
EXIT_REFUSED = 1
#: The command could not work: usage, configuration, a server that does not answer.
EXIT_FAILED = 2


def confirm(question: str, *, yes: bool) -> None:
    """
    Ask before something that cannot be taken back.

    Raises:
        ConfigurationError: Nobody is there to answer and --yes was not given.
        typer.Exit: The answer is no.

    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfigurationError("nobody can be asked here (standard input is no terminal); add --yes to do it")
    if not typer.confirm(question, err=True):
        raise typer.Exit(EXIT_REFUSED)
