"""A settlement hook that accepts everything and does nothing, so that benchmarks measure the worker alone."""

from reliability.outcomes import Accepted, SettlementResult
from reliability.settlement import SettlementObservation

_ACCEPTED = Accepted("noop")


class NoopSettlementHook:
    """Accept every observation without looking at it."""

    def observe(self, observation: SettlementObservation) -> SettlementResult:
        """Accept."""
        del observation
        return _ACCEPTED
