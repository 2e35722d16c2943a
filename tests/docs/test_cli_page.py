"""The page of commands against the commands."""

from pathlib import Path

from worker.cli import options, reference

DOCS = Path(__file__).parents[2] / "docs"


def test_page_is_what_the_commands_say() -> None:
    """docs/cli.md is what `make docs` writes from the command tree."""
    assert (DOCS / "cli.md").read_text() == reference.page()


def test_exit_codes_are_explained() -> None:
    """Each exit code of the code has its row on the operations page."""
    page = (DOCS / "operations.md").read_text()

    for code in (options.EXIT_FINE, options.EXIT_REFUSED, options.EXIT_FAILED):
        assert f"\n| {code} | " in page
