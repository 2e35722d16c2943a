"""
What may be shown of a message's arguments wherever people see them: ids, numbers, and how many jobs a batch has.

Celery keeps a text of the arguments beside the message, for events and Flower. Nothing else of an argument is ever in
it (promise P6).
"""

from collections.abc import Mapping
from typing import Final

from tasks.batch_messages import JOBS

#: Arguments that are ids or numbers.
SHOWN_ARGUMENTS: Final = ("job_id", "attempt", "queue", "published_at_ms")


def arguments(kwargs: Mapping[str, object]) -> str:
    """Return the text for arguments that this project wrote itself; what others wrote, a worker checks first."""
    return repr(plain(kwargs) | count(kwargs))


def plain(kwargs: Mapping[str, object]) -> dict[str, object]:
    """Return the ids and numbers among the arguments."""
    return {name: kwargs[name] for name in SHOWN_ARGUMENTS if name in kwargs}


def count(kwargs: Mapping[str, object]) -> dict[str, object]:
    """Return how many jobs a batch names; nothing for another message."""
    jobs = kwargs.get(JOBS)
    return {"count": len(jobs)} if isinstance(jobs, list) else {}
