"""
One log line per state change: the event's name first, then ids, codes, counts and times.

Never pass a payload, a detail or a secret: what is logged here is read by people and kept by machines. Names and
allowed fields stand in `reliability.events`.
"""

import structlog

from reliability.events import Event

_LOG = structlog.stdlib.get_logger("chio")


def emit(event: Event, **fields: str | float | None) -> None:
    """Write the event with its fields; a field that is None is left out."""
    _LOG.info(event.value, **{name: value for name, value in fields.items() if value is not None})


def warn(event: Event, **fields: str | float | None) -> None:
    """Write the event as a warning: something an operator may have to look at."""
    _LOG.warning(event.value, **{name: value for name, value in fields.items() if value is not None})
