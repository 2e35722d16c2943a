"""Hooks of this project's own workers that scenarios need beside `tasks.hooks.noop`."""

from benchmarks import effects
from reliability.errors import HookTransientError
from reliability.outcomes import Accepted, SettlementResult
from reliability.settlement import SettlementObservation

_ACCEPTED = Accepted("benchmark")


class RecordingSettlementHook:
    """Record when each settlement was made, as the jobs of other queues do."""

    def observe(self, observation: SettlementObservation) -> SettlementResult:
        """Record and accept."""
        effects.record(observation.receipt_id)
        return _ACCEPTED


class FailingTwiceSettlementHook:
    """Fail on the first two tries of each settlement."""

    def observe(self, observation: SettlementObservation) -> SettlementResult:
        """Count the try, then fail or accept."""
        if effects.fails(observation.receipt_id):
            raise HookTransientError("one of the tries that fail")
        return _ACCEPTED


class UnreachableSettlementHook:
    """Fail always, as a rail that is down for hours."""

    def observe(self, observation: SettlementObservation) -> SettlementResult:
        """Fail."""
        del observation
        raise HookTransientError("the rail is down")
