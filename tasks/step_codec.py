"""Steps as plain JSON values, for outcomes that wait on disk: codes, ids and digests, never a payload or a detail."""

from collections.abc import Callable, Mapping
from typing import Any, Final, assert_never

from reliability.dead_letter import DeadLetterRecord
from reliability.errors import InvalidRecordError
from reliability.failures import SettlementFailureReason
from reliability.reconciliation import ReconciliationRequest
from storage.jobs import FinishedAs
from tasks import steps

_KIND: Final = "step"


def to_wire(step: steps.Step) -> dict[str, object]:
    """Write a step."""
    match step:
        case steps.Done(finished_as=finished_as):
            return {_KIND: "done", "finished_as": finished_as.value}
        case steps.RetryAfter():
            return {
                _KIND: "retry_after",
                "attempt": step.attempt,
                "delay_ms": step.delay_ms,
                "reason": step.reason.to_wire(),
                "max_retries": step.max_retries,
                "pending": step.pending and step.pending.canonical_json().decode(),
            }
        case steps.Defer(attempt=attempt, delay_ms=delay_ms, why=why):
            return {_KIND: "defer", "attempt": attempt, "delay_ms": delay_ms, "why": why}
        case steps.DeadLettered(record=record):
            return {_KIND: "dead_lettered", "record": record.canonical_json().decode()}
        case steps.AwaitReceipt(request=request):
            return {_KIND: "await_receipt", "request": request.canonical_json().decode()}
        case _:
            assert_never(step)


def from_wire(value: object) -> steps.Step:
    """
    Read a step.

    Raises:
        InvalidRecordError: It is none.

    """
    try:
        found = dict(value) if isinstance(value, Mapping) else {}
        step: steps.Step = _READERS[found.pop(_KIND)](**found)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidRecordError("step", f"expected a step, got what cannot be read: {type(error).__name__}") from error
    return step


def _done(finished_as: str) -> steps.Step:
    return steps.Done(finished_as=FinishedAs(finished_as))


def _retry_after(attempt: int, delay_ms: int, reason: object, max_retries: int, pending: str | None) -> steps.Step:
    return steps.RetryAfter(
        attempt=attempt,
        delay_ms=delay_ms,
        reason=SettlementFailureReason.from_wire(reason),
        max_retries=max_retries,
        pending=ReconciliationRequest.from_json(pending) if pending else None,
    )


def _defer(attempt: int, delay_ms: int, why: str) -> steps.Step:
    return steps.Defer(attempt=attempt, delay_ms=delay_ms, why=why)


def _dead_lettered(record: str) -> steps.Step:
    return steps.DeadLettered(record=DeadLetterRecord.from_json(record))


def _await_receipt(request: str) -> steps.Step:
    return steps.AwaitReceipt(request=ReconciliationRequest.from_json(request))


_READERS: Final[Mapping[str, Callable[..., Any]]] = {
    "done": _done,
    "retry_after": _retry_after,
    "defer": _defer,
    "dead_lettered": _dead_lettered,
    "await_receipt": _await_receipt,
}
