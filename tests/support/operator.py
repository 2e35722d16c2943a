"""
The producer's and operator's side of a worker test: an app and stores on the same servers as the worker.

Everything here works in the test's own process.
"""

from pathlib import Path
from typing import Final

from storage.bundle import Storage
from storage.jobs import Admitted, JobKind, NewJob
from tasks import messages, publishing
from tests.support import observations
from worker.app import WorkerApp, create_app
from worker.settings import Settings

MAX_PAYLOAD_BYTES: Final = 65_536


class Operator:
    """Admit jobs, send messages and look at what became of them."""

    def __init__(self, redis_url: str, directory: Path, **settings_given: object) -> None:
        given = {"redis_timeout_s": 2, **settings_given}
        settings = Settings.load(redis_url=redis_url, data_dir=directory / "operator", **given)
        self.app: WorkerApp = create_app(settings)
        self.storage: Storage = self.app.composition.storage()

    def admit(self, receipt_id: str) -> NewJob:
        """Admit one settlement without waking it."""
        job = messages.admissible_settlement(observations.observation(receipt_id=receipt_id), MAX_PAYLOAD_BYTES)
        assert self.storage.jobs.admit(job) == Admitted()
        return job

    def enqueue(self, *receipt_ids: str) -> None:
        """Admit settlements and wake them."""
        for receipt_id in receipt_ids:
            job = self.admit(receipt_id)
            publishing.publish_attempt(self.app, job.kind, job.queue, job.job_id, attempt=0)

    def settled(self) -> int:
        """Count what ended well."""
        return sum(self.storage.jobs.counts(JobKind.SETTLEMENT).finished.values())

    def in_flight(self) -> int:
        """Count what has not ended."""
        return sum(self.storage.jobs.counts(JobKind.SETTLEMENT).in_flight.values())

    def close(self) -> None:
        """Close the connections of the app."""
        self.app.close()
