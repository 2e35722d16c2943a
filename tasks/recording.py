"""
Write what attempts came to into the ledger: one outcome or a hundred, each on its own, with one exchange.

What cannot be recorded as it is becomes another step that can: nothing is assumed confirmed, and of two dead letters
the stored one stands. Called by single attempts and by batches, once their hooks have answered.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

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

#: Pauses between tries to record an outcome while the store is unreachable, in seconds; then it goes to the spool.
RECORD_PAUSES_S: Final = (0.1, 0.3, 1.0)
#: A step that needs a reconciliation entry while that queue is full is tried again after this.
FULL_QUEUE_DELAY_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """Hold what an attempt came to."""

    claim: Claim
    step: steps.Step


class OutcomeSpool(Protocol):
    """Keep outcomes outside this process until the ledger takes them."""

    def keep(self, outcome: Outcome) -> bool:
        """Keep the outcome for good; False, with nothing kept, if there is no room or no disk. Never raises."""
        ...


class NoSpool:
    """Keep nothing: an outcome that the ledger does not take in time is lost with its lease."""

    def keep(self, outcome: Outcome) -> bool:
        """Keep nothing."""
        del outcome
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorder:
    """Record outcomes; what the store does not take for a while is spooled."""

    storage: Storage
    max_hop_ms: int
    #: Wait between two tries, in seconds.
    pause: Callable[[float], None]
    spool: OutcomeSpool = field(default_factory=NoSpool)

    def record(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        """
        Record each outcome and return those that are recorded, with the step that is; lost claims are left out.

        What the store does not take is spooled, and left out too: the due pump records it and what follows from it.

        Raises:
            StorageUnavailableError: if the store did not answer and the spool took not all; some may be recorded.

        """
        pauses_s = iter(RECORD_PAUSES_S)
        recorded: list[Outcome] = []
        unanswered: StorageUnavailableError | None = None
        try:
            while outcomes and unanswered is None:
                errors = self._try(outcomes)
                recorded += [outcome for outcome, error in zip(outcomes, errors, strict=True) if error is None]
                refused = [pair for pair in zip(outcomes, errors, strict=True) if pair[1] is not None]
                unanswered = self._wait_out(refused, pauses_s)
                outcomes = [again for outcome, error in refused if (again := self._instead(outcome, error)) is not None]
        finally:
            # Also when a time limit interrupts: the hooks' effects are done.
            left = [outcome for outcome in outcomes if not self.spool.keep(outcome)]
        if left and unanswered is not None:
            raise unanswered
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

    def _wait_out(
        self, refused: Sequence[tuple[Outcome, Exception | None]], pauses_s: Iterator[float]
    ) -> StorageUnavailableError | None:
        """Pause before the next try if the store did not answer; return its error if this was the last one."""
        unanswered = next((error for _, error in refused if isinstance(error, StorageUnavailableError)), None)
        pause_s = next(pauses_s, None) if unanswered else 0
        if pause_s:
            self.pause(pause_s)
        return unanswered if pause_s is None else None

    def _instead(self, outcome: Outcome, error: Exception | None) -> Outcome | None:
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
            case None:
                return None
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
