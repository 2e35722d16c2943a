"""Turn datetimes into the exact integers that indexes are ordered by."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def micros_of(instant: datetime) -> int:
    """Return the aware datetime as Unix microseconds, exactly."""
    return (instant - _EPOCH) // _MICROSECOND
