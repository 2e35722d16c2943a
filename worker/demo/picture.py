"""What the demo shows while it runs: a live table on a terminal, a line a second elsewhere."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from worker.demo.looks import Look

#: Counts in the order a job passes through them.
SHOWN: Final = ("admitted", "settled", "skipped", "dead", "in_flight", "retried", "duplicates", "conflicts")
DELIVERIES_SHOWN: Final = ("admitted", "confirmed", "dead", "in_flight", "retried", "duplicates", "conflicts")
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
        settlements = [look.counts[name] for name in SHOWN]
        deliveries = [look.deliveries[name] for name in DELIVERIES_SHOWN]
        if settlements + deliveries == self._last:
            return
        self._last = settlements + deliveries
        if self._live:
            self._live.update(self._table(look), refresh=True)
        elif self._is_time_for_a_line() or not (look.counts["in_flight"] or look.deliveries["in_flight"]):
            self._console.print(f"settlements  {_line(SHOWN, settlements)}")
            self._console.print(f"deliveries   {_line(DELIVERIES_SHOWN, deliveries)}")

    def _is_time_for_a_line(self) -> bool:
        now_s = time.monotonic()
        if now_s < self._next_line_s:
            return False
        self._next_line_s = now_s + _LINE_INTERVAL_S
        return True

    def _table(self, look: Look) -> Group:
        return Group(
            self._title,
            _counts("Settlements", SHOWN, look.counts),
            _counts("Deliveries", DELIVERIES_SHOWN, look.deliveries),
            _counts("Settlements in flight, by state", tuple(look.in_flight_by_state), look.in_flight_by_state),
            _counts("Deliveries in flight, by state", tuple(look.deliveries_by_state), look.deliveries_by_state),
        )

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


def _line(names: Sequence[str], numbers: Sequence[int]) -> str:
    return "  ".join(f"{name} {number}" for name, number in zip(names, numbers, strict=True))


def _counts(title: str, names: Sequence[str], counts: Mapping[str, int]) -> Table:
    table = Table(*names, title=title, title_justify="left")
    table.add_row(*(str(counts[name]) for name in names))
    return table
