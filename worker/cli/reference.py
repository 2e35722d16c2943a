"""
Writes `docs/cli.md` from the command tree, so that the page cannot be wrong; a test compares the two.

`python -m worker.cli.reference` writes it, and `make docs` calls that.
"""

from pathlib import Path
from typing import Final

import typer
from typer.cli import get_docs_for_click

from worker.cli.program import app

PAGE: Final = Path("docs/cli.md")
_NOTE: Final = "This page is written by `make docs` from `chio-worker --help`.\n"


def page() -> str:
    """Return the page."""
    command = typer.main.get_command(app)
    text = get_docs_for_click(obj=command, ctx=typer.Context(command, info_name="chio-worker"), name="chio-worker")
    lines = (line.rstrip() for line in text.strip().splitlines())
    heading, *rest = lines
    return "\n".join([heading, "", _NOTE.strip(), *rest, ""])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
