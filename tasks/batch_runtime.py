"""What batches need beside the runtime of single attempts: threads, paces and their time. One per process."""

from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from storage.jobs import JobKind
from tasks.pace import Pace

#: A batch begins nothing after this part of a lease.
_LEASE_PARTS: Final = 3
#: A batch begins nothing after this part of the time between the soft and the hard limit: a hook that began then has
#: the soft limit to end in, and what it came to is still to be recorded.
_LIMIT_PARTS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRuntime:
    """Hold one process' batch parts."""

    #: How many jobs one message wakes at most.
    size: int
    #: How many hooks run at a time, all batches of the process together.
    concurrency: int
    #: How long after its beginning a batch may begin another job.
    box_ms: int
    threads: Executor
    paces: Mapping[JobKind, Pace]
    monotonic_ms: Callable[[], int]


def make(size: int, concurrency: int, box_ms: int, monotonic_ms: Callable[[], int]) -> BatchRuntime:
    """Make the parts of this process; its threads start when a batch needs them."""
    return BatchRuntime(
        size=size,
        concurrency=concurrency,
        box_ms=box_ms,
        threads=ThreadPoolExecutor(concurrency, thread_name_prefix="chio-hook"),
        paces={kind: Pace(least=concurrency) for kind in JobKind},
        monotonic_ms=monotonic_ms,
    )


def box_ms(lease_ms: int, soft_limit_s: int, hard_limit_s: int) -> int:
    """Return how long a batch may begin jobs, so that it ends inside its leases and before the hard limit."""
    return min(lease_ms // _LEASE_PARTS, (hard_limit_s - soft_limit_s) * 1000 // _LIMIT_PARTS)
