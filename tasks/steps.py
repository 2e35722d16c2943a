"""
The closed set of what can follow one attempt. Flows return a step; `tasks.base` carries it out.

`transition_for` says what the ledger must record before anything else may happen (record first, publish after).
"""

from dataclasses import dataclass
from typing import assert_never

from reliability.dead_letter import DeadLetterRecord
from reliability.failures import SettlementFailureReason
from reliability.reconciliation import ReconciliationRequest
from storage import jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The job ended well."""

    finished_as: jobs.FinishedAs


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryAfter:
    """
    The attempt failed and the policy allows another one.

    `attempt` is the number of the next one; `pending` queues a reconciliation entry beside it.
    """

    attempt: int
    delay_ms: int
    reason: SettlementFailureReason
    max_retries: int
    pending: ReconciliationRequest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Defer:
    """The attempt could not begin (open circuit, rate limit); the same attempt comes again and none is spent."""

    attempt: int
    delay_ms: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLettered:
    """The job cannot succeed."""

    record: DeadLetterRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitReceipt:
    """The partner accepted; the receipt is not here yet."""

    request: ReconciliationRequest


Step = Done | RetryAfter | Defer | DeadLettered | AwaitReceipt


def transition_for(step: Step, max_hop_ms: int) -> jobs.Transition:
    """Return what the ledger records for the step; delays past one hop are parked, shorter ones published."""
    match step:
        case Done(finished_as=finished_as):
            return jobs.Finish(finished_as=finished_as)
        case RetryAfter(attempt=attempt, delay_ms=delay_ms, pending=pending):
            publishes = delay_ms <= max_hop_ms
            return jobs.Reschedule(attempt=attempt, delay_ms=delay_ms, publishes=publishes, pending=pending)
        case Defer(attempt=attempt, delay_ms=delay_ms):
            return jobs.Reschedule(attempt=attempt, delay_ms=delay_ms, publishes=delay_ms <= max_hop_ms)
        case DeadLettered(record=record):
            return jobs.Bury(record=record)
        case AwaitReceipt(request=request):
            return jobs.Await(request=request)
        case _:
            assert_never(step)
