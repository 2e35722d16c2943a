"""The same look again and again: a live picture on a terminal, one document or picture after another elsewhere."""

import sys
import time
from collections.abc import Callable
from contextlib import suppress

from rich.live import Live

from worker.cli import output
from worker.cli.census import Census


def watch(look: Callable[[], Census], interval_s: float, *, as_json: bool) -> None:
    """Show every look until Ctrl-C."""
    with suppress(KeyboardInterrupt):
        if as_json or not sys.stdout.isatty():
            _print_each(look, interval_s, as_json=as_json)
        else:
            _redraw(look, interval_s)


def _print_each(look: Callable[[], Census], interval_s: float, *, as_json: bool) -> None:
    while True:
        found = look()
        if as_json:
            output.document(found.to_json())
        else:
            output.show(found.to_tables())
        time.sleep(interval_s)


def _redraw(look: Callable[[], Census], interval_s: float) -> None:
    with Live(look().to_tables(), console=output.console(), auto_refresh=False) as live:
        while True:
            time.sleep(interval_s)
            live.update(look().to_tables(), refresh=True)
