"""
Every exception this project raises on purpose, in one tree.

A class docstring is its default message, facts are attributes; details, payloads and secrets are never part of a
message.

    ChioError
    |-- InvalidInputError (ValueError)      field, problem
    |   |-- PolicyRangeError                sentence and the four numbers of the policy
    |   |-- InvalidRecordError              what, problem
    |   `-- InvalidMessageError             field, problem
    |-- AdmissionConflictError              job_id
    |-- DeadLetterConflictError             receipt_id
    |-- StaleClaimError                     job_id
    |-- StorageUnavailableError             operation, key
    |   `-- StorageRefusedError             operation, key
    |-- CapacityReachedError                what, capacity
    |-- ConfigurationError                  problem
    |   `-- HookLoadError                   path, problem
    |-- PublishError                        what, queue
    `-- HookError                           detail (hashed later, never shown)
        |-- HookInvalidObservationError
        |-- HookTransientError
        |-- HookPermanentError
        `-- HookPipelineError               code, detail
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reliability.failures import SettlementFailureCode


class ChioError(Exception):
    """Something in this project refused or failed."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or inspect.getdoc(type(self)))

    def __reduce__(self) -> tuple[object, ...]:
        # A prefork child pickles what it raises; the default way would call __init__ with the message alone.
        return (_restore, (type(self), str(self), vars(self)))


class InvalidInputError(ChioError, ValueError):
    """A value was refused."""

    def __init__(self, field: str, problem: str) -> None:
        self.field = field
        self.problem = problem
        super().__init__(f"{field}: {problem}")


class PolicyRangeError(InvalidInputError):
    """A retry policy is out of range."""

    def __init__(
        self,
        sentence: str,
        *,
        max_retries: int,
        initial_backoff_ms: int,
        backoff_multiplier: int,
        backoff_cap_ms: int,
    ) -> None:
        self.sentence = sentence
        self.max_retries = max_retries
        self.initial_backoff_ms = initial_backoff_ms
        self.backoff_multiplier = backoff_multiplier
        self.backoff_cap_ms = backoff_cap_ms
        super().__init__("retry policy", sentence)


class InvalidRecordError(InvalidInputError):
    """A stored or received record does not decode, or disagrees with its index."""

    def __init__(self, what: str, problem: str) -> None:
        self.what = what
        super().__init__(what, problem)


class InvalidMessageError(InvalidInputError):
    """A message does not follow the wire contract."""


class AdmissionConflictError(ChioError):
    """A job with this id was admitted before with other bytes; send the same bytes, or use a new id."""

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        super().__init__(f"job {job_id!r} was admitted before with other bytes; send the same bytes, or use a new id")


class DeadLetterConflictError(ChioError):
    """A different dead letter is already stored for this receipt."""

    def __init__(self, receipt_id: str) -> None:
        self.receipt_id = receipt_id
        super().__init__(f"a different dead letter is already stored for receipt {receipt_id!r}; nothing was changed")


class StaleClaimError(ChioError):
    """The claim is no longer valid: its row version, token or lease has passed; nothing was recorded."""

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        super().__init__(f"the claim on job {job_id!r} is no longer valid; nothing was recorded")


class StorageUnavailableError(ChioError):
    """The store did not answer; nothing is assumed about what it holds."""

    def __init__(self, operation: str, key: str, sentence: str | None = None) -> None:
        self.operation = operation
        self.key = key
        unanswered = f"the store did not answer {operation} of {key!r}; check that it is up and reachable"
        super().__init__(sentence or unanswered)


class StorageRefusedError(StorageUnavailableError):
    """The store refused the user this process logs in as; waiting will not help, and nothing is assumed."""

    def __init__(self, operation: str, key: str) -> None:
        super().__init__(
            operation,
            key,
            f"the server refused {operation} of {key!r} to this user; check user and password in CHIO_REDIS_URL and"
            " CHIO_BROKER_URL, and what the server's ACL allows that user",
        )


class CapacityReachedError(ChioError):
    """A bounded store is full; nothing was queued."""

    def __init__(self, what: str, capacity: int) -> None:
        self.what = what
        self.capacity = capacity
        super().__init__(f"{what} is full at {capacity} entries; nothing was queued: work it off or raise the capacity")


class ConfigurationError(ChioError):
    """The settings cannot be used."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(problem)


class HookLoadError(ConfigurationError):
    """A hook cannot be loaded from its path."""

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        super().__init__(f"hook {path!r} cannot be loaded: {problem}; expected package.module:attribute")


class PublishError(ChioError):
    """A message could not be published; what it announces stays due."""

    def __init__(self, what: str, queue: str) -> None:
        self.what = what
        self.queue = queue
        super().__init__(f"{what} could not be published to queue {queue!r}; it stays due and is published later")


class HookError(ChioError):
    """A hook says why it failed; the detail is only ever hashed."""

    def __init__(self, detail: str = "") -> None:
        self.detail = detail
        super().__init__()


class HookInvalidObservationError(HookError):
    """The hook found the observation invalid; it is not tried again."""


class HookTransientError(HookError):
    """The hook failed for a reason that may pass; it is tried again."""


class HookPermanentError(HookError):
    """The hook failed for a reason that will not pass; it is not tried again."""


class HookPipelineError(HookError):
    """A step of the settlement pipeline failed with its own code; only rpc and backend are tried again."""

    def __init__(self, code: SettlementFailureCode, detail: str = "") -> None:
        self.code = code
        super().__init__(detail)


def _restore(kind: type[ChioError], message: str, state: dict[str, object]) -> ChioError:
    """Make the same exception again in another process."""
    error = kind.__new__(kind, message)
    vars(error).update(state)
    return error
