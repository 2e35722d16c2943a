"""
How this project's own producers hand in work: admit to the ledger first, publish the id only.

A publish that fails is no loss: the row is due and the due pump wakes it; the producer is told what was admitted.
"""

from collections.abc import Sequence

import celery

from reliability.errors import PublishError
from reliability.events import Event
from reliability.settlement import SettlementObservation
from storage.jobs import Admission, Admitted, NewJob
from storage.protocols import JobStorage
from tasks import crash_points, messages, publishing
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


def enqueue_many(app: celery.Celery, ledger: JobStorage, new_jobs: Sequence[NewJob]) -> list[Admission]:
    """
    Admit the jobs with one exchange and wake those that are new; the answers stand in the order of the jobs.

    Raises:
        StorageUnavailableError: if the ledger did not answer; some may be admitted: send the same jobs again.

    """
    admissions = ledger.admit_many(new_jobs)
    crash_points.reach(CrashPoint.AFTER_ADMIT)
    admitted = [job for job, admission in zip(new_jobs, admissions, strict=True) if isinstance(admission, Admitted)]
    try:
        for job in admitted:
            crash_points.reach(CrashPoint.BEFORE_PUBLISH)
            publishing.publish_attempt(app, job.kind, job.queue, job.job_id, attempt=0)
            crash_points.reach(CrashPoint.AFTER_PUBLISH)
    except PublishError:
        warn(Event.PUBLISH_FAILED, queue=admitted[0].queue)
    return admissions
