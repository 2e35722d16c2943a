"""
What a command works with: settings, stores, and the Celery app to publish with, opened for one command.

The only module of the command line that knows how the parts are put together. The app is made when something is
published and not before, since most commands only look.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import celery

from reliability.clock import SystemClock
from reliability.delivery_request import DeliveryRequest
from reliability.errors import ConfigurationError, PublishError
from reliability.settlement import SettlementObservation
from storage.bundle import Storage
from storage.jobs import Admission, NewJob
from tasks import crash_points, delivery_messages, enqueue, messages, names, publishing, raw_message
from tasks.confirm_flow import ConfirmFlow, ReceiptAnswer
from tasks.crash_points import CrashPoint
from tasks.partners import PartnerDirectory
from worker import bootstrap, logs, quarantine, settings_checks
from worker.cli import output
from worker.cli.intake import Intake
from worker.cli.receipt_intake import ReceiptIntake
from worker.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Station:
    """Hold the parts of one command."""

    settings: Settings
    storage: Storage

    def spooled(self) -> int:
        """Count the outcomes that wait on this host's disk for the ledger."""
        return len(bootstrap.outcome_spool_of(self.settings))

    def set_aside(self) -> int:
        """Count the messages that wait on this host's disk for the quarantine."""
        return len(bootstrap.quarantine_spool_of(self.settings))

    def settlement_intake(self) -> Intake:
        """Return what takes lines with observations in."""
        return Intake(
            read=self._read_settlement, enqueue=self._enqueue, max_payload_bytes=self.settings.max_payload_bytes
        )

    def delivery_intake(self) -> Intake:
        """
        Return what takes lines with deliveries in.

        Raises:
            ConfigurationError: No partner file is named, or it does not hold.

        """
        directory, clock = self.partners(), SystemClock()

        def read(content: bytes) -> NewJob:
            request, now_s = DeliveryRequest.from_json(content), clock.now_ms() // 1000
            return delivery_messages.admissible_delivery(
                request, directory, self.settings.max_payload_bytes, now_s=now_s
            )

        return Intake(read=read, enqueue=self._enqueue, max_payload_bytes=self.settings.max_payload_bytes)

    def receipt_intake(self) -> ReceiptIntake:
        """
        Return what takes lines with receipts in; without a partner file only those of settlements are believed.

        Raises:
            ConfigurationError: The partner file does not hold.

        """
        return ReceiptIntake(
            policy=self.partners() if self.settings.partners_file else None,
            flow=ConfirmFlow(ledger=self.storage.jobs, dead_letters=self.storage.dead_letters),
            keep=self._keep_receipt,
            max_payload_bytes=self.settings.max_payload_bytes,
        )

    def partners(self) -> PartnerDirectory:
        """
        Read the partner file as a worker does.

        Raises:
            ConfigurationError: None is named, or with every problem in it.

        """
        if self.settings.partners_file is None:
            raise ConfigurationError(
                "CHIO_PARTNERS_FILE is not set; name the partner file (see examples/partners.toml)"
            )
        return PartnerDirectory.load(self.settings.partners_file, os.environ)

    def replay(self, receipt_id: str) -> bool:
        """
        Run a dead job again; False if there is nothing to replay.

        A wake-up that cannot be published is no failure: the row is due and a worker's due pump wakes it.
        """
        wake_up = self.storage.jobs.replay(receipt_id)
        if wake_up is None:
            return False
        crash_points.reach(CrashPoint.REPLAY_AFTER_STORE)
        try:
            publishing.publish_attempt(celery_app(), wake_up.kind, wake_up.queue, wake_up.job_id, wake_up.attempt)
        except PublishError as error:
            output.note(str(error))
        return True

    def requeue(self, entry_id: str) -> str | None:
        """
        Publish a quarantined message again, then forget it; return its queue, None if there is no such message.

        Raises:
            InvalidInputError: Its bytes are no message.
            PublishError: The broker did not take it; it stays in the quarantine.

        """
        entry, raw = self.storage.quarantine.get(entry_id), self.storage.quarantine.raw(entry_id)
        if entry is None or raw is None:
            return None
        app = celery_app()
        try:
            quarantine.requeue(app, raw, entry.queue)
        except publishing.publish_errors(app) as error:
            raise PublishError(what=f"the quarantined message {entry_id}", queue=entry.queue) from error
        self.storage.quarantine.remove(entry_id)
        return entry.queue

    def _keep_receipt(self, arguments: Mapping[str, object], answer: ReceiptAnswer) -> None:
        # As the worker keeps one that came in a message, so that it can be sent again from there.
        raw = raw_message.task_written_out(names.CONFIRM_DELIVERY, bootstrap.new_token(), arguments)
        self.storage.quarantine.keep(raw, names.DELIVERY_QUEUE, f"invalid_message:receipt_{answer.value}")

    def _read_settlement(self, content: bytes) -> NewJob:
        observation = SettlementObservation.from_json(content)
        return messages.admissible_settlement(observation, self.settings.max_payload_bytes)

    def _enqueue(self, jobs: Iterable[NewJob]) -> list[Admission]:
        return enqueue.enqueue_many(celery_app(), self.storage.jobs, jobs, self.settings.batch_size)


def celery_app() -> celery.Celery:
    """Return the app of the settings in the environment."""
    from worker.app import app

    return app


@contextmanager
def opened() -> Iterator[Station]:
    """
    Open what a command works with.

    Raises:
        ConfigurationError: Settings are missing, wrong, or cannot work together.

    """
    settings = bootstrap.load_settings()
    settings_checks.refuse_unusable(settings)
    logs.configure(settings.log_format, "WARNING")
    yield Station(settings=settings, storage=bootstrap.build_storage(settings))
