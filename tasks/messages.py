"""
What may come in: Celery message arguments and whole observations, checked at the border.

A message either names an admitted job (`job_id`, `attempt`) or carries a whole observation from a foreign producer.
`admissible_settlement` holds the limits an id and a payload must keep so that they fit a header, a broker message
and the ledger. Everything refused raises `InvalidMessageError` with the field and what to do.
"""

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Final

import pydantic

from reliability.errors import InvalidInputError, InvalidMessageError
from reliability.settlement import SettlementObservation
from storage.jobs import JobKind, NewJob
from tasks import names

#: AMQP's correlation id holds 255 bytes; the percent-encoded job id must fit with room to spare.
MAX_ID_BYTES: Final = 200
#: Above this a number has no RFC 8785 canonical form (2**53 - 1).
MAX_CANONICAL_INTEGER: Final = 9_007_199_254_740_991
#: Job ids that begin so name deliveries; a receipt must not claim one.
DELIVERY_PREFIX: Final = "delivery:"
MAX_ATTEMPT: Final = 2**32 - 1
_VISIBLE_ASCII: Final = re.compile(r"[!-~]*")


class WakeUpMessage(pydantic.BaseModel):
    """Name the attempt a message asks for: the ledger decides whether there is anything to do."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True, frozen=True)

    job_id: Annotated[str, pydantic.Field(min_length=1, max_length=MAX_ID_BYTES)]
    attempt: Annotated[int, pydantic.Field(ge=0, le=MAX_ATTEMPT)] = 0


def decode_attempt(
    kwargs: Mapping[str, object], whole_argument: str, read: Callable[[object], NewJob]
) -> WakeUpMessage | NewJob:
    """
    Read the arguments of an attempt: an admitted job's name, or the whole work under `whole_argument`.

    Raises:
        InvalidMessageError: if the arguments are neither, or the work is refused.

    """
    if whole_argument not in kwargs:
        return decode_wake_up(kwargs)
    unknown = sorted(set(kwargs) - {whole_argument})
    if unknown:
        raise InvalidMessageError(field=unknown[0], problem=f"is not expected beside {whole_argument!r}; leave it out")
    try:
        return read(kwargs[whole_argument])
    except InvalidInputError as error:
        raise InvalidMessageError(field=f"{whole_argument}.{error.field}", problem=error.problem) from error


def decode_wake_up(kwargs: Mapping[str, object]) -> WakeUpMessage:
    """
    Read `job_id` and `attempt`.

    Raises:
        InvalidMessageError: if a field is missing, unknown or out of range.

    """
    try:
        return WakeUpMessage.model_validate(dict(kwargs))
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise InvalidMessageError(field=field, problem=first["msg"]) from error


def admissible_settlement(observation: SettlementObservation, max_payload_bytes: int) -> NewJob:
    """
    Turn an observation into a job, or refuse it for what a header, a message or the ledger cannot carry.

    Raises:
        InvalidInputError: naming the field and the limit.

    """
    check_header_safe("receipt_id", observation.receipt_id)
    if observation.receipt_id.startswith(DELIVERY_PREFIX):
        problem = f"must not begin with {DELIVERY_PREFIX!r}: it names deliveries"
        raise InvalidInputError(field="receipt_id", problem=problem)
    check_canonical("finalized_at", observation.finalized_at)
    check_canonical("amount.units", observation.amount.units)
    payload = observation.canonical_json()
    check_size(payload, max_payload_bytes)
    return NewJob(
        job_id=observation.receipt_id,
        kind=JobKind.SETTLEMENT,
        queue=names.SETTLEMENT_QUEUE,
        payload=payload,
        finalized_at=observation.finalized_at,
    )


def check_header_safe(field: str, value: str) -> None:
    """Refuse an id that cannot stand in an HTTP header value: it is sent as the idempotency key (RFC 9110, 5.5)."""
    if not value or len(value.encode()) > MAX_ID_BYTES:
        raise InvalidInputError(field=field, problem=f"expected 1 to {MAX_ID_BYTES} bytes, got: {len(value.encode())}")
    if not _VISIBLE_ASCII.fullmatch(value):
        unsafe = next(character for character in value if not "!" <= character <= "~")
        problem = f"expected visible ASCII characters only (it is sent as a header value), got: {unsafe!r}"
        raise InvalidInputError(field=field, problem=problem)


def check_canonical(field: str, value: int) -> None:
    """Refuse a number that has no canonical JSON form (RFC 8785, 3.2.2.3)."""
    if value > MAX_CANONICAL_INTEGER:
        raise InvalidInputError(field=field, problem=f"expected at most {MAX_CANONICAL_INTEGER}, got: {value}")


def check_size(payload: bytes, max_payload_bytes: int) -> None:
    """Refuse a payload past the limit before it reaches the store or the broker."""
    if len(payload) > max_payload_bytes:
        problem = f"expected at most {max_payload_bytes} bytes (CHIO_MAX_PAYLOAD_BYTES), got: {len(payload)}"
        raise InvalidInputError(field="payload", problem=problem)
