"""What failed around a task is kept when the ledger cannot know of it."""

from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from billiard.exceptions import WorkerLostError
from celery import signals as celery_signals
from kombu.message import Message
from kombu.serialization import prepare_accept_content

from reliability.errors import StorageUnavailableError
from storage.bundle import Storage, memory_storage
from tests.support.clock import ManualClock
from worker import envelope, quarantine, signals
from worker.envelope import Defect


class Task:
    """Stand for the task that sends a signal: its name and the queue its message came from."""

    name = "chio.settle.observe"
    request = SimpleNamespace(delivery_info={"routing_key": "settlement"})


TASK = Task()
WHOLE = {"observation": {"receipt_id": "rcpt-1"}}


class Kept:
    """Send the signals an app would, and look at what is kept."""

    def __init__(self) -> None:
        self.storage: Storage = memory_storage(ManualClock())
        composition: Any = SimpleNamespace(storage=lambda: self.storage, settings=None)
        signals.connect(composition)

    def fail(self, exception: Exception, kwargs: object) -> None:
        """Tell that a task failed."""
        celery_signals.task_failure.send(sender=TASK, task_id="task-1", exception=exception, args=(), kwargs=kwargs)

    def entries(self) -> list[tuple[str, str]]:
        """Return queue and reason of everything kept."""
        return [(entry.queue, entry.reason) for entry in self.storage.quarantine.list(10)]


@pytest.fixture
def kept() -> Iterator[Kept]:
    """Connect the signals and disconnect them with the test."""
    yield Kept()
    for signal in (celery_signals.setup_logging, celery_signals.worker_process_init):
        signal.disconnect(dispatch_uid=f"chio:{signal.name}")
    for signal in (celery_signals.task_internal_error, celery_signals.task_failure):
        signal.disconnect(dispatch_uid=f"chio:{signal.name}")


def test_foreign_work_of_a_process_that_died_is_kept(kept: Kept) -> None:
    """Whole work whose process died may not be in the ledger, so its message is kept."""
    kept.fail(WorkerLostError("signal 9"), WHOLE)

    assert kept.entries() == [("settlement", Defect.WORKER_LOST)]


def test_what_is_kept_can_be_requeued(kept: Kept) -> None:
    """The message is written out whole again: requeued, a worker takes it for a sound one."""
    kept.fail(WorkerLostError("signal 9"), WHOLE)
    raw = kept.storage.quarantine.raw("1")
    published: list[dict[str, Any]] = []

    quarantine.requeue(_app(published), raw or b"", "settlement")

    (given,) = published
    message = Message(
        body=given["body"],
        headers=given["headers"],
        content_type=given["content_type"],
        content_encoding=given["content_encoding"],
        accept=prepare_accept_content(["json"]),
    )
    limits = envelope.Limits(max_message_bytes=10_000, hard_time_limit_s=45, max_delay_s=180)
    assert envelope.defect_in(message, limits, datetime(2026, 1, 1, tzinfo=UTC)) is None
    assert message.payload[1] == WHOLE


def _app(published: list[dict[str, Any]]) -> Any:
    class Producer:
        def __enter__(self) -> "Producer":  # noqa: PYI034  # a stand-in for kombu's producer
            return self

        def __exit__(self, *_: object) -> None:
            return None

        def publish(self, body: bytes, **options: Any) -> None:
            published.append({"body": body, **options})

    return SimpleNamespace(producer_or_acquire=Producer)


def test_a_wake_up_is_not_kept(kept: Kept) -> None:
    """The ledger knows the job of a wake-up; its lease runs out and the pump wakes it."""
    kept.fail(WorkerLostError("signal 9"), {"job_id": "rcpt-1", "attempt": 0})

    assert kept.entries() == []


def test_a_task_that_failed_by_itself_is_not_kept(kept: Kept) -> None:
    """An ordinary failure is the task's own affair."""
    kept.fail(ValueError("x"), WHOLE)

    assert kept.entries() == []


def test_work_celery_failed_on_is_kept(kept: Kept) -> None:
    """A message on which Celery's own code failed in the pool process is kept."""
    celery_signals.task_internal_error.send(sender=TASK, task_id="task-1", args=(), kwargs=WHOLE)

    assert kept.entries() == [("settlement", Defect.INTERNAL_ERROR)]


def test_the_last_app_connected_is_the_one_that_keeps(kept: Kept) -> None:
    """Connecting again replaces the handlers of an app that is gone."""
    second = Kept()

    second.fail(WorkerLostError("signal 9"), WHOLE)

    assert (kept.entries(), second.entries()) == ([], [("settlement", Defect.WORKER_LOST)])


def test_a_quarantine_that_is_down_does_not_end_the_worker(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the message cannot be kept either, its loss is logged and the worker goes on."""

    def down(*_: object) -> None:
        raise StorageUnavailableError("keep", "settlement")

    monkeypatch.setattr(kept.storage.quarantine, "keep", down)

    kept.fail(WorkerLostError("signal 9"), WHOLE)

    assert kept.entries() == []
