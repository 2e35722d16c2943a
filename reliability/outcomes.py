"""
What a settlement hook's answer becomes before it is classified.

An exception from a hook maps to an answer here too. `reliability.retry` turns answers into decisions; nothing here
decides.
"""

import traceback
from dataclasses import dataclass, field

from reliability import errors
from reliability.failures import SettlementFailureCode, SettlementFailureReason, SettlementSkipReason


@dataclass(frozen=True, slots=True)
class Accepted:
    """The rail took the settlement."""

    transcript_id: str = ""


@dataclass(frozen=True, slots=True)
class Skipped:
    """There was nothing to settle."""

    reason: SettlementSkipReason


@dataclass(frozen=True, slots=True)
class Retryable:
    """The call failed and the hook asks for another; a code that may not retry makes it permanent all the same."""

    reason: SettlementFailureReason
    #: What the rail asked for with Retry-After, in milliseconds; None where it asked for nothing.
    retry_after_ms: int | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class Permanent:
    """The call failed and no repeat will help."""

    reason: SettlementFailureReason


@dataclass(frozen=True, slots=True)
class Pending:
    """The rail answered 202: taken but not confirmed, so it waits in reconciliation and is not classified."""

    transcript_id: str = ""


#: The answers `classify_attempt` decides on.
ClassifiedResult = Accepted | Skipped | Retryable | Permanent
#: Every answer a settlement hook may give.
SettlementResult = Accepted | Skipped | Retryable | Permanent | Pending


def classify_exception(error: Exception) -> Retryable | Permanent:
    """Map what a hook raised to the answer it stands for; an exception nobody classified is retryable, code backend."""
    match error:
        case errors.HookInvalidObservationError():
            return Permanent(
                SettlementFailureReason.from_detail(SettlementFailureCode.INVALID_OBSERVATION, error.detail)
            )
        case errors.HookTransientError():
            return Retryable(SettlementFailureReason.from_detail(SettlementFailureCode.BACKEND, error.detail))
        case errors.HookPermanentError():
            return Permanent(SettlementFailureReason.from_detail(SettlementFailureCode.BACKEND, error.detail))
        case errors.HookPipelineError():
            return _pipeline_failure(error)
        case _:
            # This way of writing an exception survives one whose own __str__ raises.
            text = "".join(traceback.format_exception_only(error))
            return Retryable(SettlementFailureReason.from_detail(SettlementFailureCode.BACKEND, text))


def _pipeline_failure(error: errors.HookPipelineError) -> Retryable | Permanent:
    # Every pipeline code but rpc is permanent here: a hook says HookTransientError for a backend that may recover.
    reason = SettlementFailureReason.from_detail(error.code, error.detail)
    return Retryable(reason) if error.code is SettlementFailureCode.RPC else Permanent(reason)
