"""
What is told of attempts: one line each, or one line for all of a batch that ended well.

Everything an operator may have to look at has a line of its own even in a batch; what went as it should is counted
there, since writing a thousand lines a second costs more than the settlements they tell of.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final, assert_never

from reliability.events import Event
from storage.jobs import Claim, FinishedAs, JobKind
from tasks import steps
from tasks.emit import emit, warn

_EVENTS: Final = {
    (kind, fact): Event[f"{kind}_{fact}".upper()]
    for kind in JobKind
    for fact in ("retry_scheduled", "deferred", "dead_lettered", "pending")
}
_FINISHED: Final = {
    (JobKind.SETTLEMENT, FinishedAs.SETTLED): Event.SETTLEMENT_SETTLED,
    (JobKind.SETTLEMENT, FinishedAs.SKIPPED): Event.SETTLEMENT_SKIPPED,
    (JobKind.SETTLEMENT, FinishedAs.CONFIRMED): Event.SETTLEMENT_CONFIRMED,
    (JobKind.DELIVERY, FinishedAs.CONFIRMED): Event.DELIVERY_CONFIRMED,
}


def report(claim: Claim, step: steps.Step) -> None:
    """Log the one line of this attempt."""
    kind, job_id, attempt = claim.kind, claim.job_id, claim.attempt
    match step:
        case steps.Done(finished_as=finished_as):
            emit(_FINISHED[kind, finished_as], job_id=job_id, attempt=attempt)
        case steps.RetryAfter(reason=reason, delay_ms=delay_ms, max_retries=max_retries):
            warn(
                _EVENTS[kind, "retry_scheduled"],
                job_id=job_id,
                attempt=attempt,
                delay_ms=delay_ms,
                max_retries=max_retries,
                code=reason.code.value,
            )
        case steps.Defer(delay_ms=delay_ms, why=why):
            emit(_EVENTS[kind, "deferred"], job_id=job_id, attempt=attempt, delay_ms=delay_ms, why=why)
        case steps.DeadLettered(record=record):
            code = record.reason.code.value
            warn(_EVENTS[kind, "dead_lettered"], job_id=job_id, attempts=record.attempts, code=code)
        case steps.AwaitReceipt():
            emit(_EVENTS[kind, "pending"], job_id=job_id, attempt=attempt)
        case _:
            assert_never(step)


@dataclass(frozen=True, slots=True)
class BatchReport:
    """Count what became of a batch's jobs, and tell the rest one by one as it happens."""

    counts: Counter[str] = field(default_factory=Counter)

    def add(self, claim: Claim, step: steps.Step) -> None:
        """Count an outcome; log it too unless the job ended well."""
        match step:
            case steps.Done(finished_as=finished_as):
                self.counts[finished_as.value] += 1
                return
            case steps.RetryAfter():
                self.counts["retried"] += 1
            case steps.Defer():
                self.counts["deferred"] += 1
            case steps.DeadLettered():
                self.counts["dead_lettered"] += 1
            case steps.AwaitReceipt():
                self.counts["pending"] += 1
            case _:
                assert_never(step)
        report(claim, step)

    def tell(self, kind: JobKind, count: int) -> None:
        """Log the one line of the batch, whose message named `count` jobs."""
        emit(Event.BATCH_ENDED, kind=kind.value, count=count, **self.counts)
