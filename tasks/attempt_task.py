"""
One attempt of one job on Celery: claim, run the flow, record its step, then publish what follows.

The ledger is written before anything is published, so a crash at any line leaves a row that says what is owed and the
due pump pays it. `ObserveSettlement` and `SendDelivery` are the two kinds.
"""

from typing import assert_never

from reliability.errors import InvalidInputError, InvalidMessageError, StorageUnavailableError
from reliability.events import Event
from storage import jobs
from tasks import attempt_flow, crash_points, feed, messages, reporting, steps
from tasks.base import UNREACHABLE_RETRY_MS, RuntimeTask
from tasks.crash_points import CrashPoint
from tasks.emit import emit, warn
from tasks.recording import Outcome


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
                # The other bytes may matter to a person: they are kept, and the job goes on with those it has.
                warn(Event.JOB_CONFLICT, job_id=job_id)
                self.quarantine(self.request.kwargs, InvalidMessageError(field="conflict", problem="other bytes"))
            case _:
                assert_never(result)

    def _run_claimed(self, claim: jobs.Claim) -> None:
        crash_points.reach(CrashPoint.AFTER_CLAIM)
        if claim.cause is jobs.ClaimCause.LEASE_EXPIRED:
            warn(Event.JOB_LEASE_EXPIRED, job_id=claim.job_id, attempt=claim.attempt)
        with self.runtime.keeper.keep(claim):
            outcome = Outcome(claim, attempt_flow.attempted(self.attempt, claim))
            crash_points.reach(CrashPoint.BEFORE_RECORD)
            recorded = self.runtime.recorder.record([outcome])
        crash_points.reach(CrashPoint.AFTER_RECORD)
        for outcome in recorded:
            self._follow_up(claim, outcome.step)
        crash_points.reach(CrashPoint.BEFORE_ACKNOWLEDGE)

    def _follow_up(self, claim: jobs.Claim, step: steps.Step) -> None:
        """Publish what the recorded step asks for. Whatever fails here is owed by the ledger and paid by the pump."""
        reporting.report(claim, step)
        match step:
            case steps.RetryAfter(attempt=attempt, delay_ms=delay_ms) | steps.Defer(attempt=attempt, delay_ms=delay_ms):
                if delay_ms <= self.runtime.max_hop_ms:
                    self.come_back(delay_ms / 1000, job_id=claim.job_id, attempt=attempt)
            case steps.DeadLettered(record=record):
                max_length = self.runtime.dead_letter_feed_max_length
                feed.send(self.app, self.runtime.storage.dead_letters, record, max_length)
            case steps.Done() | steps.AwaitReceipt():
                pass
            case _:
                assert_never(step)
