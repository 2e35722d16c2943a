"""Turn datetimes into the exact integers that indexes are ordered by."""

from datetime import UTC, datetime, timedelta

from reliability.errors import InvalidInputError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def micros_of(instant: datetime) -> int:
    """Return the aware datetime as Unix microseconds, exactly."""
    if instant.tzinfo is None:
        raise InvalidInputError("instant", "expected a time with a zone, got one without")
    return (instant - _EPOCH) // _MICROSECOND
