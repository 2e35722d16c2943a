"""The page of events against the list in code."""

from pathlib import Path

from reliability import events

PAGE = Path(__file__).parents[2] / "docs" / "events.md"


def test_the_page_lists_every_event() -> None:
    """docs/events.md is exactly what the code renders; write `events.as_markdown()` to it after a change."""
    assert PAGE.read_text(encoding="utf-8") == events.as_markdown()
