"""
What a batch message may hold: `jobs`, up to 1,000 pairs of a job id and an attempt, each judged on its own.

`ordered` is true if they stand in the order of (finalized_at, job id bytes) already. A message that is no batch at all
is refused whole; a pair that is none costs only itself. Whether there is anything to do for a pair, the ledger decides.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import pydantic

from reliability import fields
from reliability.errors import InvalidInputError, InvalidMessageError
from tasks.messages import MAX_ATTEMPT, MAX_ID_BYTES

#: How many jobs one message may name: one claim or renewal takes 1,024.
MAX_JOBS: Final = 1_000
#: The argument that holds them.
JOBS: Final = "jobs"
#: The argument that saves the worker a look at the ledger for their order.
ORDERED: Final = "ordered"

JobId = Annotated[str, pydantic.Field(min_length=1, max_length=MAX_ID_BYTES, strict=True)]
Attempt = Annotated[int, pydantic.Field(ge=0, le=MAX_ATTEMPT, strict=True)]
#: The attempt that a message asks for.
Wanted = tuple[str, int]

_PAIR: Final = pydantic.TypeAdapter[Wanted](tuple[JobId, Attempt])
_PAIRS: Final = pydantic.TypeAdapter[list[Wanted]](list[tuple[JobId, Attempt]])


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedPair:
    """Hold what stood in a pair's place, and why it is none."""

    found: object
    error: InvalidInputError


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchMessage:
    """Hold the attempts a message asks for, in its order, and what it held beside them."""

    wanted: Sequence[Wanted]
    refused: Sequence[RefusedPair] = ()
    ordered: bool = False


def decode_batch(kwargs: Mapping[str, object]) -> BatchMessage:
    """
    Read the arguments of a batch.

    Raises:
        InvalidMessageError: if they are none; a pair that is none is returned as refused.

    """
    unknown = sorted(set(kwargs) - {JOBS, ORDERED})
    if unknown:
        raise InvalidMessageError(field=unknown[0], problem=f"is not expected beside {JOBS!r}; leave it out")
    ordered = kwargs.get(ORDERED, False)
    if not isinstance(ordered, bool):
        raise InvalidMessageError(field=ORDERED, problem=f"expected true or false, got {fields.kind_of(ordered)}")
    entries = kwargs.get(JOBS)
    if not isinstance(entries, list):
        raise InvalidMessageError(field=JOBS, problem=f"expected an array, got {fields.kind_of(entries)}")
    if not 1 <= len(entries) <= MAX_JOBS:
        raise InvalidMessageError(field=JOBS, problem=f"expected 1 to {MAX_JOBS} pairs, got {len(entries)}")
    return _judged(entries, ordered=ordered)


def _judged(entries: list[object], *, ordered: bool) -> BatchMessage:
    try:
        return BatchMessage(wanted=_PAIRS.validate_python(entries), ordered=ordered)
    except pydantic.ValidationError:
        read = [_pair(entry) for entry in entries]
    return BatchMessage(
        wanted=[pair for pair in read if isinstance(pair, tuple)],
        refused=[pair for pair in read if isinstance(pair, RefusedPair)],
        ordered=ordered,
    )


def _pair(entry: object) -> Wanted | RefusedPair:
    try:
        return _PAIR.validate_python(entry)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        return RefusedPair(found=entry, error=InvalidMessageError(field=JOBS, problem=first["msg"]))
