"""
The one Celery base of every task: claims, runs a flow, records its step, then publishes what follows.

The ledger is written before anything is published, so a crash at any line leaves a row that says what is owed and the
due pump pays it. Decides nothing about retries: `reliability.retry` does, and a flow hands the decision over.
"""

from collections.abc import Callable
from typing import Any, Final, NoReturn, assert_never

import celery
from celery.exceptions import Reject

from reliability.errors import CapacityReachedError, PublishError, StaleClaimError, StorageUnavailableError
from reliability.events import Event
from storage import jobs
from tasks import publishing, steps
from tasks.emit import emit, warn
from tasks.runtime import Runtime

#: Pauses between tries to record an outcome while the store is unreachable, in seconds; together less than a lease.
RECORD_PAUSES_S: Final = (0.1, 0.3, 1.0, 2.0, 4.0)
#: A message that met an unreachable store comes again after this many seconds, spending no attempt.
UNREACHABLE_RETRY_S: Final = 5.0


#: The only arguments whose values may be shown by Flower, events and logs.
SHOWN_ARGUMENTS: Final = frozenset({"job_id", "attempt"})

#: What a flow does with a claim.
Attempt = Callable[[jobs.Claim], steps.Step]


class RuntimeTask(celery.Task):  # type: ignore[misc]  # Celery ships no types
    """Hold the runtime and carry out steps. Subclasses name a task and say how its message is claimed and run."""

    abstract = True
    acks_late = True
    ignore_result = True
    #: The policy counts attempts in the ledger; Celery's own limit must never cut in.
    max_retries = None

    def __init__(self, runtime: Callable[[], Runtime]) -> None:
        self._runtime = runtime

    @property
    def runtime(self) -> Runtime:
        """Return this process' runtime, built at its first use."""
        return self._runtime()

    def answer_claim(self, job_id: str, result: jobs.AdmitAndClaimResult, run: Attempt) -> None:
        """Run the attempt if it was claimed; otherwise say why not and end quietly."""
        match result:
            case jobs.Claim():
                self._attempt(result, run)
            case jobs.NotDue(remaining_ms=remaining_ms):
                self.come_back(remaining_ms / 1000)
            case jobs.Refused(why=why):
                emit(Event.JOB_STALE_MESSAGE, job_id=job_id, why=why.value)
            case jobs.Duplicate(of=of):
                emit(Event.JOB_DUPLICATE, job_id=job_id, of=of.value)
            case jobs.Conflict():
                warn(Event.JOB_CONFLICT, job_id=job_id)
            case _:
                assert_never(result)

    def _attempt(self, claim: jobs.Claim, run: Attempt) -> None:
        if claim.cause is jobs.ClaimCause.LEASE_EXPIRED:
            warn(Event.JOB_LEASE_EXPIRED, job_id=claim.job_id, attempt=claim.attempt)
        with self.runtime.keeper.keep(claim):
            step = run(claim)
            recorded = self._record(claim, step)
        if recorded is not None:
            self._follow_up(claim, recorded)

    def _record(self, claim: jobs.Claim, step: steps.Step) -> steps.Step | None:
        """Write the step into the ledger; None if the claim was lost meanwhile."""
        try:
            self._record_when_reachable(claim, steps.transition_for(step, self.runtime.max_hop_ms))
        except StaleClaimError:
            warn(Event.JOB_CLAIM_LOST, job_id=claim.job_id, attempt=claim.attempt)
            return None
        except CapacityReachedError:
            return self._record(claim, without_entry(claim, step))
        return step

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
            if record and publishing.publish_dead_letter(self.app, record, self.runtime.dead_letter_feed_max_length):
                dead_letters.published(receipt_id)
        except (PublishError, StorageUnavailableError):
            warn(Event.PUBLISH_FAILED, job_id=receipt_id)

    def come_back(self, countdown_s: float, **kwargs: str | int) -> NoReturn:
        """Schedule this task again under the same task id, as a Celery retry; with new arguments if any are given."""
        arguments: dict[str, Any] = kwargs or self.request.kwargs
        # What Flower shows of the arguments: ids and numbers, never an observation (promise P6).
        shown = {name: value for name, value in arguments.items() if name in SHOWN_ARGUMENTS}
        raise self.retry(args=(), kwargs=arguments, countdown=countdown_s, argsrepr="()", kwargsrepr=repr(shown))

    def retry(self, *args: Any, **options: Any) -> Any:
        """
        Publish the retry; a retry that cannot be published gives the message back to the broker instead.

        Celery would turn the failed publish into a `Reject` that drops the message (celery/app/task.py).
        """
        try:
            return super().retry(*args, **options)
        except Reject as reject:
            warn(Event.PUBLISH_FAILED, job_id=self.request.id)
            self.runtime.pause(1.0)
            raise Reject(reject.reason, requeue=True) from reject


def without_entry(claim: jobs.Claim, step: steps.Step) -> steps.Step:
    """
    Return what to record instead when the reconciliation queue is full: the same attempt comes again in a minute.

    The effect may be done; the partner drops the repeat by its idempotency key. Nothing is assumed confirmed.
    """
    why = "reconciliation queue full"
    match step:
        case steps.RetryAfter():
            return steps.RetryAfter(attempt=step.attempt, delay_ms=step.delay_ms, reason=step.reason)
        case _:
            return steps.Defer(attempt=claim.attempt, delay_ms=60_000, why=why)


def report(claim: jobs.Claim, step: steps.Step) -> None:
    """Log the one line of this attempt."""
    kind, job_id, attempt = claim.kind.value, claim.job_id, claim.attempt
    match step:
        case steps.Done(finished_as=finished_as):
            emit(Event(f"{kind}.{finished_as.value}"), job_id=job_id, attempt=attempt)
        case steps.RetryAfter(reason=reason, delay_ms=delay_ms):
            warn(
                Event(f"{kind}.retry_scheduled"),
                job_id=job_id,
                attempt=attempt,
                delay_ms=delay_ms,
                code=reason.code.value,
            )
        case steps.Defer(delay_ms=delay_ms, why=why):
            emit(Event(f"{kind}.deferred"), job_id=job_id, attempt=attempt, delay_ms=delay_ms, why=why)
        case steps.DeadLettered(record=record):
            code = record.reason.code.value
            warn(Event(f"{kind}.dead_lettered"), job_id=job_id, attempts=record.attempts, code=code)
        case steps.AwaitReceipt():
            emit(Event(f"{kind}.pending"), job_id=job_id, attempt=attempt)
        case _:
            assert_never(step)
