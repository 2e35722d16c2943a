"""How producers pack what they admit: messages by kind and queue, in order, only for what is new."""

from typing import Any

import celery
import pytest
from kombu.exceptions import OperationalError

from storage.jobs import Admitted, Duplicate, DuplicateOf, JobState
from tasks import enqueue
from tests.support import backends, batches, builders


class Producer:
    """Hold an app whose messages are noted, beside a memory ledger."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.storage = backends.memory().storage
        self.sent: list[tuple[str, str, dict[str, Any]]] = []
        self.broker_is_down = False
        self.app = celery.Celery("test", broker="memory://")
        monkeypatch.setattr(self.app, "send_task", self._send)

    def _send(self, name: str, *, kwargs: dict[str, Any], queue: str, **_: object) -> None:
        if self.broker_is_down:
            raise OperationalError
        self.sent.append((name, queue, kwargs))


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> Producer:
    """Return a producer."""
    return Producer(monkeypatch)


def test_admitted_jobs_share_messages_in_the_order_of_their_finalisation(producer: Producer) -> None:
    """Each message holds as many as it may; the last one alone is a single attempt."""
    jobs = [batches.job(name, batches.FINALIZED_AT - place) for place, name in enumerate("abcde")]

    enqueue.enqueue_many(producer.app, producer.storage.jobs, jobs, 2)

    assert producer.sent == [
        ("chio.settle.observe_many", "settlement", {"jobs": [["e", 0], ["d", 0]], "ordered": True}),
        ("chio.settle.observe_many", "settlement", {"jobs": [["c", 0], ["b", 0]], "ordered": True}),
        ("chio.settle.observe", "settlement", {"job_id": "a", "attempt": 0}),
    ]


def test_a_size_of_one_is_one_message_a_job(producer: Producer) -> None:
    """Nothing is packed unless it is asked for."""
    enqueue.enqueue_many(producer.app, producer.storage.jobs, [batches.job("a"), batches.job("b")])

    assert [kwargs for _, _, kwargs in producer.sent] == [
        {"job_id": "a", "attempt": 0},
        {"job_id": "b", "attempt": 0},
    ]


def test_kinds_and_queues_share_no_message(producer: Producer) -> None:
    """Settlements and deliveries go to their own tasks and queues."""
    jobs = [batches.job("a"), builders.delivery_job(), batches.job("b"), builders.delivery_job(message_id="msg-2")]

    enqueue.enqueue_many(producer.app, producer.storage.jobs, jobs, 10)

    assert sorted((name, queue, len(kwargs["jobs"])) for name, queue, kwargs in producer.sent) == [
        ("chio.deliver.send_many", "delivery", 2),
        ("chio.settle.observe_many", "settlement", 2),
    ]


def test_only_what_is_new_is_woken(producer: Producer) -> None:
    """A duplicate is answered in its place and is in no message."""
    enqueue.enqueue_many(producer.app, producer.storage.jobs, [batches.job("a")], 10)
    producer.sent.clear()

    answers = enqueue.enqueue_many(
        producer.app, producer.storage.jobs, [batches.job("b"), batches.job("a"), batches.job("c")], 10
    )

    assert answers == [Admitted(), Duplicate(of=DuplicateOf.IN_LEDGER), Admitted()]
    assert [kwargs for _, _, kwargs in producer.sent] == [{"jobs": [["b", 0], ["c", 0]], "ordered": True}]


def test_a_broker_that_is_down_costs_no_admission(producer: Producer) -> None:
    """The jobs are in the ledger and due; the pump wakes them later."""
    producer.broker_is_down = True

    answers = enqueue.enqueue_many(producer.app, producer.storage.jobs, [batches.job("a"), batches.job("b")], 10)

    assert answers == [Admitted(), Admitted()]
    assert [row.job_id for row in producer.storage.jobs.rows(JobState.OUTSTANDING, 10)] == ["a", "b"]
