"""What the demo shows while it runs: a live table on a terminal, a line a second elsewhere."""

import time
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from worker.demo.looks import Look

#: Counts in the order a job passes through them.
SHOWN: Final = ("admitted", "settled", "skipped", "dead", "in_flight", "retried", "duplicates", "conflicts")
#: Least pause between two lines where there is no terminal, in seconds.
_LINE_INTERVAL_S: Final = 1.0


class Picture:
    """Show looks as they come."""

    def __init__(self, console: Console, title: str) -> None:
        self._console = console
        self._title = title
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._last: Sequence[int] = ()
        self._next_line_s = 0.0

    def tell(self, text: str) -> None:
        """Print a line that stays."""
        self._console.print(text)

    def show(self, look: Look) -> None:
        """Show a look if it differs from the one before."""
        numbers = [look.counts[name] for name in SHOWN]
        if numbers == self._last:
            return
        self._last = numbers
        if self._live:
            self._live.update(self._table(look), refresh=True)
        elif self._is_time_for_a_line() or not look.counts["in_flight"]:
            self._console.print("  ".join(f"{name} {number}" for name, number in zip(SHOWN, numbers, strict=True)))

    def _is_time_for_a_line(self) -> bool:
        now_s = time.monotonic()
        if now_s < self._next_line_s:
            return False
        self._next_line_s = now_s + _LINE_INTERVAL_S
        return True

    def _table(self, look: Look) -> Group:
        counts, states = Table(*SHOWN), Table(*look.in_flight_by_state)
        counts.add_row(*(str(look.counts[name]) for name in SHOWN))
        states.add_row(*(str(number) for number in look.in_flight_by_state.values()))
        return Group(self._title, counts, "in flight, by state", states)

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            with suppress(BrokenPipeError):
                self._live.stop()
