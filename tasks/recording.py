"""
Write what attempts came to into the ledger: one outcome or a hundred, each on its own, with one exchange.

What cannot be recorded as it is becomes another step that can: nothing is assumed confirmed, and of two dead letters
the stored one stands. Called by single attempts and by batches, once their hooks have answered.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from reliability.errors import (
    CapacityReachedError,
    ChioError,
    DeadLetterConflictError,
    StaleClaimError,
    StorageUnavailableError,
)
from reliability.events import Event
from storage.bundle import Storage
from storage.jobs import Claim, Transition
from tasks import attempt_flow, steps
from tasks.emit import warn

#: Pauses between tries to record an outcome while the store is unreachable, in seconds; together less than a lease.
RECORD_PAUSES_S: Final = (0.1, 0.3, 1.0, 2.0, 4.0)
#: A step that needs a reconciliation entry while that queue is full is tried again after this.
FULL_QUEUE_DELAY_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """Hold what an attempt came to."""

    claim: Claim
    step: steps.Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorder:
    """Record outcomes, holding on to them as long as their leases may last."""

    storage: Storage
    max_hop_ms: int
    #: Wait between two tries, in seconds.
    pause: Callable[[float], None]

    def record(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        """
        Record each outcome and return those that are recorded, with the step that is; lost claims are left out.

        Raises:
            StorageUnavailableError: if the store did not answer for long; some may be recorded all the same.

        """
        pauses_s = iter(RECORD_PAUSES_S)
        recorded: list[Outcome] = []
        while outcomes:
            errors = self._try(outcomes)
            recorded += [outcome for outcome, error in zip(outcomes, errors, strict=True) if error is None]
            refused = [(outcome, error) for outcome, error in zip(outcomes, errors, strict=True) if error is not None]
            if any(isinstance(error, StorageUnavailableError) for _, error in refused):
                self._wait(next(pauses_s, None), refused)
            outcomes = [again for outcome, error in refused if (again := self._instead(outcome, error)) is not None]
        return recorded

    def _try(self, outcomes: Sequence[Outcome]) -> Sequence[Exception | None]:
        wanted = [(outcome.claim, steps.transition_for(outcome.step, self.max_hop_ms)) for outcome in outcomes]
        try:
            return self._record(wanted)
        except StorageUnavailableError as error:
            return [error] * len(outcomes)

    def _record(self, wanted: Sequence[tuple[Claim, Transition]]) -> Sequence[Exception | None]:
        if len(wanted) > 1:
            return self.storage.jobs.record_many(wanted)
        try:
            self.storage.jobs.record(*wanted[0])
        except ChioError as error:
            return [error]
        return [None]

    def _wait(self, pause_s: float | None, refused: Sequence[tuple[Outcome, Exception]]) -> None:
        if pause_s is None:
            raise next(error for _, error in refused if isinstance(error, StorageUnavailableError))
        # The hooks' effects are done: hold on to the outcomes as long as the leases may last.
        self.pause(pause_s)

    def _instead(self, outcome: Outcome, error: Exception) -> Outcome | None:
        """Return what to record next for an outcome that was refused; None if its claim was lost meanwhile."""
        claim = outcome.claim
        match error:
            case StaleClaimError():
                warn(Event.JOB_CLAIM_LOST, job_id=claim.job_id, attempt=claim.attempt)
                return None
            case StorageUnavailableError():
                return outcome
            case CapacityReachedError():
                return Outcome(claim, without_entry(claim, outcome.step))
            case DeadLetterConflictError():
                # One receipt, one dead letter (P4): the one that is stored stands.
                return Outcome(claim, self._stored_dead_letter(claim))
            case _:
                raise error

    def _stored_dead_letter(self, claim: Claim) -> steps.Step:
        stored = self.storage.dead_letters.get(claim.job_id)
        if stored is None:
            delay_ms = attempt_flow.UNREACHABLE_DELAY_MS
            return steps.Defer(attempt=claim.attempt, delay_ms=delay_ms, why="dead letter changed")
        return steps.DeadLettered(record=stored)


def without_entry(claim: Claim, step: steps.Step) -> steps.Step:
    """
    Return what to record instead when the reconciliation queue is full: the same attempt comes again in a minute.

    The effect may be done; the partner drops the repeat by its idempotency key. Nothing is assumed confirmed.
    """
    why = "reconciliation queue full"
    match step:
        case steps.RetryAfter():
            return dataclasses.replace(step, pending=None)
        case _:
            return steps.Defer(attempt=claim.attempt, delay_ms=FULL_QUEUE_DELAY_MS, why=why)
