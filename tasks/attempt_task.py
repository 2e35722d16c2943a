"""
One attempt of one job on Celery: claim, run the flow, record its step, then publish what follows.

The ledger is written before anything is published, so a crash at any line leaves a row that says what is owed and the
due pump pays it. `ObserveSettlement` and `SendDelivery` are the two kinds.
"""

import dataclasses
from typing import Final, assert_never

from reliability.errors import (
    CapacityReachedError,
    DeadLetterConflictError,
    InvalidInputError,
    PublishError,
    StaleClaimError,
    StorageUnavailableError,
)
from reliability.events import Event
from storage import jobs
from tasks import crash_points, messages, publishing, steps
from tasks.base import UNREACHABLE_RETRY_MS, RuntimeTask
from tasks.crash_points import CrashPoint
from tasks.emit import emit, warn

#: Pauses between tries to record an outcome while the store is unreachable, in seconds; together less than a lease.
RECORD_PAUSES_S: Final = (0.1, 0.3, 1.0, 2.0, 4.0)
#: A step that needs a reconciliation entry while that queue is full is tried again after this.
FULL_QUEUE_DELAY_MS: Final = 60_000


class AttemptTask(RuntimeTask):
    """
    Run one attempt of one job.

    Called with `job_id` and `attempt` by this project's producers and retries, or with the whole work under
    `whole_argument` by a foreign producer, which is admitted in the same script that claims it.
    """

    abstract = True
    whole_argument: str

    def read(self, value: object) -> jobs.NewJob:
        """Read a foreign producer's whole work; raises `InvalidInputError`."""
        raise NotImplementedError

    def attempt(self, claim: jobs.Claim) -> steps.Step:
        """Run the flow of this kind."""
        raise NotImplementedError

    def run(self, **kwargs: object) -> None:
        """Claim the attempt and run it; a message that does not follow the contract is quarantined."""
        try:
            message = messages.decode_attempt(kwargs, self.whole_argument, self.read)
            crash_points.reach(CrashPoint.BEFORE_CLAIM)
            claimed = self._claim(message)
        except InvalidInputError as error:
            return self.quarantine(kwargs, error)
        except StorageUnavailableError:
            # Fail closed: nothing is assumed new, and the only copy of foreign work may be this message.
            self.come_back(UNREACHABLE_RETRY_MS / 1000)
        attempt = message.attempt if isinstance(message, messages.WakeUpMessage) else 0
        return self._answer(message.job_id, attempt, claimed)

    def _claim(self, message: messages.WakeUpMessage | jobs.NewJob) -> jobs.AdmitAndClaimResult:
        ledger, lease = self.runtime.storage.jobs, self.runtime.new_lease()
        if isinstance(message, jobs.NewJob):
            return ledger.admit_and_claim(message, lease)
        return ledger.claim(message.job_id, message.attempt, lease)

    def _answer(self, job_id: str, attempt: int, result: jobs.AdmitAndClaimResult) -> None:
        """Run the attempt if it was claimed; otherwise say why not and end quietly."""
        match result:
            case jobs.Claim():
                self._run_claimed(result)
            case jobs.NotDue(remaining_ms=remaining_ms):
                # Only a parked row is due later than one hop, and the pump wakes it: this message is a stale one.
                if remaining_ms <= self.runtime.max_hop_ms:
                    self.come_back(remaining_ms / 1000, job_id=job_id, attempt=attempt)
            case jobs.Refused(why=why):
                emit(Event.JOB_STALE_MESSAGE, job_id=job_id, why=why.value)
            case jobs.Duplicate(of=of):
                emit(Event.JOB_DUPLICATE, job_id=job_id, of=of.value)
            case jobs.Conflict():
                warn(Event.JOB_CONFLICT, job_id=job_id)
            case _:
                assert_never(result)

    def _run_claimed(self, claim: jobs.Claim) -> None:
        crash_points.reach(CrashPoint.AFTER_CLAIM)
        if claim.cause is jobs.ClaimCause.LEASE_EXPIRED:
            warn(Event.JOB_LEASE_EXPIRED, job_id=claim.job_id, attempt=claim.attempt)
        with self.runtime.keeper.keep(claim):
            step = self._step(claim)
            crash_points.reach(CrashPoint.BEFORE_RECORD)
            recorded = self._record(claim, step)
        crash_points.reach(CrashPoint.AFTER_RECORD)
        if recorded is not None:
            self._follow_up(claim, recorded)
        crash_points.reach(CrashPoint.BEFORE_ACKNOWLEDGE)

    def _step(self, claim: jobs.Claim) -> steps.Step:
        crash_points.reach(CrashPoint.BEFORE_HOOK)
        try:
            step = self.attempt(claim)
        except StorageUnavailableError:
            # Flows ask the store only before they send, so nothing left and no attempt is spent.
            return steps.Defer(attempt=claim.attempt, delay_ms=UNREACHABLE_RETRY_MS, why="store unreachable")
        crash_points.reach(CrashPoint.AFTER_HOOK)
        return step

    def _record(self, claim: jobs.Claim, step: steps.Step) -> steps.Step | None:
        """Write the step into the ledger; None if the claim was lost meanwhile."""
        try:
            self._record_when_reachable(claim, steps.transition_for(step, self.runtime.max_hop_ms))
        except StaleClaimError:
            warn(Event.JOB_CLAIM_LOST, job_id=claim.job_id, attempt=claim.attempt)
            return None
        except CapacityReachedError:
            return self._record(claim, without_entry(claim, step))
        except DeadLetterConflictError:
            # One receipt, one dead letter (P4): the one that is stored stands.
            return self._record(claim, self._stored_dead_letter(claim))
        return step

    def _stored_dead_letter(self, claim: jobs.Claim) -> steps.Step:
        stored = self.runtime.storage.dead_letters.get(claim.job_id)
        if stored is None:
            return steps.Defer(attempt=claim.attempt, delay_ms=UNREACHABLE_RETRY_MS, why="dead letter changed")
        return steps.DeadLettered(record=stored)

    def _record_when_reachable(self, claim: jobs.Claim, transition: jobs.Transition) -> None:
        for pause_s in RECORD_PAUSES_S:
            try:
                return self.runtime.storage.jobs.record(claim, transition)
            except StorageUnavailableError:
                # The hook's effect is done: hold on to the outcome as long as the lease may last.
                self.runtime.pause(pause_s)
        return self.runtime.storage.jobs.record(claim, transition)

    def _follow_up(self, claim: jobs.Claim, step: steps.Step) -> None:
        """Publish what the recorded step asks for. Whatever fails here is owed by the ledger and paid by the pump."""
        report(claim, step)
        match step:
            case steps.RetryAfter(attempt=attempt, delay_ms=delay_ms) | steps.Defer(attempt=attempt, delay_ms=delay_ms):
                if delay_ms <= self.runtime.max_hop_ms:
                    self.come_back(delay_ms / 1000, job_id=claim.job_id, attempt=attempt)
            case steps.DeadLettered(record=record):
                self._publish_dead_letter(record.receipt_id)
            case steps.Done() | steps.AwaitReceipt():
                pass
            case _:
                assert_never(step)

    def _publish_dead_letter(self, receipt_id: str) -> None:
        dead_letters = self.runtime.storage.dead_letters
        try:
            record = dead_letters.get(receipt_id)
            crash_points.reach(CrashPoint.BEFORE_DEAD_LETTER_PUBLISH)
            if record and publishing.publish_dead_letter(self.app, record, self.runtime.dead_letter_feed_max_length):
                crash_points.reach(CrashPoint.AFTER_DEAD_LETTER_PUBLISH)
                dead_letters.published(receipt_id)
        except (PublishError, StorageUnavailableError):
            warn(Event.PUBLISH_FAILED, job_id=receipt_id)


def without_entry(claim: jobs.Claim, step: steps.Step) -> steps.Step:
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


def report(claim: jobs.Claim, step: steps.Step) -> None:
    """Log the one line of this attempt."""
    kind, job_id, attempt = claim.kind.value, claim.job_id, claim.attempt
    match step:
        case steps.Done(finished_as=finished_as):
            emit(_event(kind, finished_as.value), job_id=job_id, attempt=attempt)
        case steps.RetryAfter(reason=reason, delay_ms=delay_ms, max_retries=max_retries):
            warn(
                _event(kind, "retry_scheduled"),
                job_id=job_id,
                attempt=attempt,
                delay_ms=delay_ms,
                max_retries=max_retries,
                code=reason.code.value,
            )
        case steps.Defer(delay_ms=delay_ms, why=why):
            emit(_event(kind, "deferred"), job_id=job_id, attempt=attempt, delay_ms=delay_ms, why=why)
        case steps.DeadLettered(record=record):
            code = record.reason.code.value
            warn(_event(kind, "dead_lettered"), job_id=job_id, attempts=record.attempts, code=code)
        case steps.AwaitReceipt():
            emit(_event(kind, "pending"), job_id=job_id, attempt=attempt)
        case _:
            assert_never(step)


def _event(kind: str, what: str) -> Event:
    return Event[f"{kind}_{what}".upper()]
