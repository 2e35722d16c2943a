"""
How this project's own producers hand in work: admit to the ledger first, publish the id only.

A publish that fails is no loss: the row is due and the due pump wakes it; the producer is told what was admitted.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence

import celery

from reliability.errors import PublishError
from reliability.events import Event
from reliability.settlement import SettlementObservation
from storage.jobs import Admission, Admitted, JobKind, NewJob
from storage.protocols import JobStorage
from tasks import crash_points, messages, publishing
from tasks.batch_messages import Wanted
from tasks.crash_points import CrashPoint
from tasks.emit import warn


def enqueue_settlement(
    app: celery.Celery, ledger: JobStorage, observation: SettlementObservation, max_payload_bytes: int
) -> Admission:
    """
    Admit one observation and wake it.

    Raises:
        InvalidInputError: if the observation cannot be carried; nothing was admitted.
        StorageUnavailableError: if the ledger did not answer; send the same observation again.

    """
    return enqueue_many(app, ledger, [messages.admissible_settlement(observation, max_payload_bytes)])[0]


def enqueue_many(
    app: celery.Celery, ledger: JobStorage, new_jobs: Iterable[NewJob], batch_size: int = 1
) -> list[Admission]:
    """
    Admit the jobs with one exchange and wake those that are new; the answers stand in the order of the jobs.

    The ledger admits the first jobs while the iterable makes the next; it should make no more than a thousand. One
    message wakes up to `batch_size` jobs of a kind and queue, in the order of their finalisation.

    Raises:
        StorageUnavailableError: if the ledger did not answer; some may be admitted: send the same jobs again.

    """
    made: list[NewJob] = []
    admissions = ledger.admit_many(_noting(new_jobs, made))
    crash_points.reach(CrashPoint.AFTER_ADMIT)
    admitted = [job for job, admission in zip(made, admissions, strict=True) if isinstance(admission, Admitted)]
    try:
        for kind, queue, wanted in _messages(admitted, batch_size):
            crash_points.reach(CrashPoint.BEFORE_PUBLISH)
            publishing.publish_ordered(app, kind, queue, wanted)
            crash_points.reach(CrashPoint.AFTER_PUBLISH)
    except PublishError:
        warn(Event.PUBLISH_FAILED, queue=admitted[0].queue)
    return admissions


def _noting(jobs: Iterable[NewJob], made: list[NewJob]) -> Iterator[NewJob]:
    for job in jobs:
        made.append(job)
        yield job


def _messages(admitted: Sequence[NewJob], batch_size: int) -> Iterator[tuple[JobKind, str, Sequence[Wanted]]]:
    """Yield kind, queue and jobs of each message."""
    ordered = sorted(admitted, key=lambda job: (job.kind, job.queue, job.finalized_at, job.job_id.encode()))
    for (kind, queue), group in itertools.groupby(ordered, key=lambda job: (job.kind, job.queue)):
        wanted = [(job.job_id, 0) for job in group]
        yield from ((kind, queue, wanted[start : start + batch_size]) for start in range(0, len(wanted), batch_size))
