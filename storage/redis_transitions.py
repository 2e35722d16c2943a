"""Turn the transition of a claim into one script call, and the script's reply into an error or none."""

from typing import Any, assert_never

from redis.exceptions import RedisError

from reliability.errors import CapacityReachedError, DeadLetterConflictError, StaleClaimError, StorageUnavailableError
from reliability.reconciliation import ReconciliationRequest
from storage.instants import micros_of
from storage.job_ids import reconciliation_keys
from storage.jobs import Await, Bury, Claim, Finish, Reschedule, Transition
from storage.options import PUBLICATION_GRACE_MS, LedgerOptions
from storage.scripts import Argument, Call, Script

#: How errors name the queue of reconciliation requests.
RECONCILIATION_QUEUE = "the reconciliation queue"


def call_for(claim: Claim, transition: Transition, options: LedgerOptions) -> Call:
    """Return the script call that applies the transition."""
    held: tuple[Argument, ...] = (claim.job_id, claim.version, claim.token)
    match transition:
        case Finish():
            ending = _finish_arguments(claim.job_id, transition, options)
            return Call(Script.RECORD_FINISH, claim.job_id, (*held, *ending))
        case Reschedule(attempt=attempt, delay_ms=delay_ms, publishes=publishes, pending=pending):
            state = "outstanding" if publishes else "parked"
            bounds = (options.lost_message_slack_ms, options.reconciliation_capacity)
            entry = entry_arguments(pending) if pending else ()
            plan = (attempt, delay_ms, state, *bounds, claim.cause.value, *entry)
            return Call(Script.RECORD_RESCHEDULE, claim.job_id, (*held, *plan))
        case Bury():
            return Call(Script.RECORD_BURY, claim.job_id, (*held, *_bury_arguments(claim.job_id, transition, options)))
        case Await(request=request):
            entry = entry_arguments(request)
            return Call(Script.RECORD_AWAIT, claim.job_id, (*held, options.reconciliation_capacity, *entry))
        case _:
            assert_never(transition)


def conclusion_for(job_id: str, version: int, transition: Finish | Bury, options: LedgerOptions) -> Call:
    """Return the script call that ends a job by what its receipt says."""
    match transition:
        case Finish():
            arguments = _finish_arguments(job_id, transition, options)
            return Call(Script.CONCLUDE_FINISH, job_id, (job_id, version, *arguments))
        case Bury():
            return Call(Script.CONCLUDE_BURY, job_id, (job_id, version, *_bury_arguments(job_id, transition, options)))
        case _:
            assert_never(transition)


def is_concluded(job_id: str, reply: bytes) -> bool:
    """
    Tell whether a concluding script ended the job.

    Raises:
        DeadLetterConflictError: Another record exists for the id.

    """
    if reply == b"conflict":
        raise DeadLetterConflictError(job_id)
    return reply == b"recorded"


def entry_arguments(request: ReconciliationRequest) -> tuple[Argument, ...]:
    """Return a request as the scripts take it: key, json, tag, creation."""
    return (request.idempotency_key, request.canonical_json(), request.reason.value, micros_of(request.created_at))


def error_of(claim: Claim, reply: Any, options: LedgerOptions) -> Exception | None:
    """Return what a recording script's reply means: None where it was recorded."""
    match reply:
        case b"recorded":
            return None
        case b"stale":
            return StaleClaimError(claim.job_id)
        case b"conflict":
            return DeadLetterConflictError(claim.job_id)
        case b"full":
            return CapacityReachedError(RECONCILIATION_QUEUE, options.reconciliation_capacity)
        case RedisError() | b"failed":
            unavailable = StorageUnavailableError("record", claim.job_id)
            unavailable.__cause__ = reply if isinstance(reply, RedisError) else None
            return unavailable
        case _:
            raise AssertionError(f"expected a known reply of a recording script, got: {reply!r}")


def _finish_arguments(job_id: str, transition: Finish, options: LedgerOptions) -> tuple[Argument, ...]:
    ttls = (options.dedup_ttl_s, options.resolved_ttl_s)
    return (transition.finished_as.value, *ttls, *reconciliation_keys(job_id))


def _bury_arguments(job_id: str, transition: Bury, options: LedgerOptions) -> tuple[Argument, ...]:
    stored = (transition.record.canonical_json(), transition.record.finalized_at)
    times = (options.dedup_ttl_s, options.resolved_ttl_s, PUBLICATION_GRACE_MS)
    return (*stored, *times, *reconciliation_keys(job_id))
