"""A clock that stands still until a test moves it."""


class ManualClock:
    """Tell the time a test has set."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """Return the current instant in Unix epoch milliseconds."""
        return self._now_ms

    def advance(self, ms: int) -> None:
        """Let time pass."""
        self._now_ms += ms
