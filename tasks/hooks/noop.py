"""A settlement hook that accepts everything and does nothing, so that benchmarks measure the worker alone."""

from collections.abc import Sequence

from reliability.outcomes import Accepted, SettlementResult
from reliability.settlement import SettlementObservation

_ACCEPTED = Accepted("noop")


class NoopSettlementHook:
    """Accept every observation without looking at it."""

    def observe(self, observation: SettlementObservation) -> SettlementResult:
        """Accept."""
        del observation
        return _ACCEPTED

    def observe_many(self, observations: Sequence[SettlementObservation]) -> Sequence[SettlementResult]:
        """Accept all of a slice with one call, as a hook with a bulk interface does: no thread is needed for any."""
        return [_ACCEPTED] * len(observations)
