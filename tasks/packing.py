"""
How wake-ups share messages: those of one kind and queue that are due at about the same time travel together.

Pure. Batches pack the retries of their jobs, producers what they admitted, the due pump what it wakes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tasks.batch_messages import Wanted

#: A wake-up waits at most this much longer for the others of its message, in ms: less than any slack of lost messages.
SPREAD_MS: Final = 50


@dataclass(frozen=True, slots=True)
class Wake:
    """Name an attempt that is to be woken after a delay."""

    job_id: str
    attempt: int
    delay_ms: int = 0
    #: A worker died in an attempt of this job: it shares no message, so that it cannot cost others theirs.
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Pack:
    """Hold what one message wakes after a delay."""

    wanted: Sequence[Wanted]
    delay_ms: int


def packs(wakes: Sequence[Wake], size: int) -> Iterator[Pack]:
    """Yield messages of at most `size` wake-ups, soonest first; none comes before its time."""
    waiting: list[Wake] = []
    for wake in sorted(wakes, key=lambda wake: wake.delay_ms):
        if wake.alone:
            yield _pack([wake])
            continue
        if waiting and (len(waiting) == size or wake.delay_ms - waiting[0].delay_ms > SPREAD_MS):
            yield _pack(waiting)
            waiting = []
        waiting.append(wake)
    if waiting:
        yield _pack(waiting)


def _pack(waiting: Sequence[Wake]) -> Pack:
    return Pack([(wake.job_id, wake.attempt) for wake in waiting], waiting[-1].delay_ms)
