"""
Read the wall clock; nothing else in the project does.

Everything else takes a `Clock`, `now` or `now_ms` as an argument, so a test decides what time it is.
"""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tell the time in Unix epoch milliseconds."""

    def now_ms(self) -> int:
        """Return the current instant; it may jump backwards when the host's clock is set."""
        ...


class SystemClock:
    """Tell the host's wall-clock time."""

    def now_ms(self) -> int:
        """Return the host's time in Unix epoch milliseconds."""
        return time.time_ns() // 1_000_000


def utc_now() -> datetime:
    """Return the host's time as an aware UTC datetime."""
    return datetime.now(UTC)
