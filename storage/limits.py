"""
What both back ends refuse before they touch the store: values out of range, transitions that do not fit their claim.

Every check raises `InvalidInputError`. Instants stay below 2^53 ms, so adding a delay to one never overflows.
"""

from collections.abc import Sequence
from typing import assert_never

from reliability import fields
from reliability.canonical import MAX_SAFE_INTEGER
from reliability.errors import InvalidInputError
from storage.job_ids import delivery_of, job_of
from storage.jobs import Await, Bury, Claim, Finish, JobKind, Lease, NewJob, Reschedule, Transition

#: Longest id of a job, in bytes: it is part of several keys, and of a header.
MAX_JOB_ID_BYTES = 1_024
#: Longest queue name, in bytes.
MAX_QUEUE_BYTES = 128
#: Longest owner and longest token of a lease, in bytes.
MAX_OWNER_BYTES = 128
MAX_TOKEN_BYTES = 128
#: Longest lease, one day, in milliseconds.
MAX_LEASE_MS = 86_400_000
#: Most rows per claim batch.
MAX_BATCH = 1_024
#: Longest delay, in milliseconds: half of what a score holds exactly, the other half is for the instant it counts from.
MAX_DELAY_MS = 2**52
#: Most entries a listing or a pump takes at once.
MAX_LIMIT = 100_000


def check_job(job: NewJob) -> None:
    """Refuse a job that could not be kept, found again or buried."""
    _check_text("job_id", job.job_id, MAX_JOB_ID_BYTES)
    _check_text("queue", job.queue, MAX_QUEUE_BYTES)
    if job.kind is JobKind.DELIVERY and delivery_of(job.job_id) is None:
        raise InvalidInputError("job_id", "expected delivery:<partner_id>:<message_id>, got another form")
    # A later dead letter could not be written with a larger one.
    check_range("finalized_at", job.finalized_at, 0, MAX_SAFE_INTEGER)


def check_lease(lease: Lease) -> None:
    """Refuse a lease without a name, without a token, or with a duration out of range."""
    _check_text("owner", lease.owner, MAX_OWNER_BYTES)
    _check_text("token", lease.token, MAX_TOKEN_BYTES)
    check_lease_ms(lease.lease_ms)


def check_lease_ms(lease_ms: int) -> None:
    """Refuse a lease duration out of range."""
    check_range("lease_ms", lease_ms, 1, MAX_LEASE_MS)


def check_batch(batch: Sequence[object]) -> None:
    """Refuse more rows than one batch may hold."""
    if len(batch) > MAX_BATCH:
        raise InvalidInputError("batch", f"expected at most {MAX_BATCH} rows, got: {len(batch)}")


def check_attempt(attempt: int) -> None:
    """Refuse an attempt number that no row can have."""
    check_range("attempt", attempt, 0, fields.U32_MAX)


def check_limit(limit: int) -> None:
    """Refuse a listing of nothing, or of more than fits one exchange."""
    check_range("limit", limit, 1, MAX_LIMIT)


def check_page(limit: int | None, offset: int) -> None:
    """Refuse a page of nothing or with a negative start; no limit lists everything."""
    if limit is not None:
        check_limit(limit)
    check_range("offset", offset, 0, MAX_SAFE_INTEGER)


def check_instant_ms(field: str, instant_ms: int) -> None:
    """Refuse an instant that cannot be kept exactly."""
    check_range(field, instant_ms, 0, MAX_SAFE_INTEGER)


def check_delay_ms(field: str, delay_ms: int) -> None:
    """Refuse a delay that is negative or would overflow."""
    check_range(field, delay_ms, 0, MAX_DELAY_MS)


def check_transition(claim: Claim, transition: Transition) -> None:
    """Refuse a transition that is about another job, or that no attempt can lead to."""
    match transition:
        case Finish():
            return
        case Reschedule(attempt=attempt, delay_ms=delay_ms, pending=pending):
            check_attempt(attempt)
            check_range("attempt", attempt, claim.attempt, claim.attempt + 1)
            check_delay_ms("delay_ms", delay_ms)
            if pending:
                _check_same_job("pending", job_of(pending), claim.job_id)
        case Bury(record=record):
            _check_same_job("record", record.receipt_id, claim.job_id)
        case Await(request=request):
            _check_same_job("request", job_of(request), claim.job_id)
        case _:
            assert_never(transition)


def check_conclusion(job_id: str, transition: Finish | Bury) -> None:
    """Refuse a dead letter that is about another job."""
    if isinstance(transition, Bury):
        _check_same_job("record", transition.record.receipt_id, job_id)


def check_range(field: str, value: int, least: int, most: int) -> None:
    """Refuse what is not an integer from `least` to `most`."""
    if not fields.is_integer(value) or not least <= value <= most:
        raise InvalidInputError(field, f"expected an integer from {least} to {most}, got: {value!r}")


def _check_text(field: str, text: str, most_bytes: int) -> None:
    size = len(fields.text(field, text).encode())
    if not 1 <= size <= most_bytes:
        raise InvalidInputError(field, f"expected 1 to {most_bytes} bytes, got: {size}")
    if "\0" in text:
        raise InvalidInputError(field, f"expected text without NUL, got: {text!r}")


def _check_same_job(field: str, about: str, job_id: str) -> None:
    if about != job_id:
        raise InvalidInputError(field, f"expected one about job {job_id!r}, got one about {about!r}")
