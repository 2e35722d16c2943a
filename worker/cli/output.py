"""
What a command prints: tables or one JSON document on standard output, notes and problems on standard error.

Nothing printed is read as markup, so an id from outside cannot colour or hide a line.
"""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console, RenderableType
from rich.table import Table

#: Columns of a table whose reader is not a terminal: wide enough that no id is cut.
_FILE_WIDTH = 250


def console(*, stderr: bool = False) -> Console:
    """Return a console on one of the two standard streams."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else _FILE_WIDTH
    return Console(file=stream, width=width, markup=False, emoji=False, highlight=False, soft_wrap=not stream.isatty())


def document(value: Mapping[str, object] | Sequence[object]) -> None:
    """Print one JSON document on one line."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def line(text: str) -> None:
    """Print one line of an answer."""
    console().print(text)


def note(text: str) -> None:
    """Print one line beside the answer, on standard error."""
    console(stderr=True).print(text)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Make a table; numbers stand right, everything else left."""
    made = Table(title=title, title_justify="left")
    filled = [list(row) for row in rows]
    for index, column in enumerate(columns):
        is_number = bool(filled) and all(isinstance(row[index], int) for row in filled)
        made.add_column(column, justify="right" if is_number else "left", overflow="fold")
    for row in filled:
        made.add_row(*("-" if cell is None else str(cell) for cell in row))
    return made


def show(made: RenderableType) -> None:
    """Print a table, or several."""
    console().print(made)
