"""Which messages run together, and what becomes of each."""

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from kombu.message import Message

from tasks import batch_messages
from tests.support import poison
from worker import gathering


class Noting(Message):
    """Note what becomes of a message."""

    became: tuple[str, ...] = ()

    def ack_log_error(self, *_: object) -> None:
        """Note the acknowledgement."""
        self.became += ("acknowledged",)

    def reject_log_error(self, _logger: object, _errors: object, requeue: object = None) -> None:
        """Note the refusal."""
        self.became += (f"rejected {requeue}",)


def wake_up(job_id: str = "rcpt-1", queue: str = "settlement", task: str = "chio.settle.observe") -> Noting:
    """Return a message that wakes a job."""
    return Noting(  # type: ignore[no-untyped-call]  # kombu leaves it untyped
        body=json.dumps([[], {"job_id": job_id, "attempt": 0}, {}]),
        headers={**poison.sound_headers(), "task": task},
        content_type="application/json",
        content_encoding="utf-8",
        delivery_info={"exchange": "", "routing_key": queue},
        accept={"application/json"},
    )


class Line:
    """Hold what is handed on, and what is to be called soon."""

    def __init__(self, most: int = 10) -> None:
        self.handed_on: list[Any] = []
        self.soon: list[Callable[[], object]] = []
        self.gathering = gathering.Gathering(most, self.handed_on.append, self.soon.append)


@pytest.mark.parametrize("task", ["chio.settle.observe", "chio.deliver.send"])
@pytest.mark.parametrize("kwargs", [{"job_id": "rcpt-1", "attempt": 0}, {"job_id": "rcpt-1"}])
def test_first_attempts_are_plain(task: str, kwargs: dict[str, object]) -> None:
    """A message that names an admitted job's first attempt may run with others, as Celery writes it."""
    assert gathering.is_plain({"task": task, "retries": 0, "eta": None, "timelimit": [None, None]}, kwargs)


@pytest.mark.parametrize(
    "headers",
    [
        {"task": "chio.settle.observe_many"},
        {"task": "chio.deliver.confirm"},
        {"eta": "2026-01-01T00:00:00+00:00"},
        {"expires": "2026-01-01T00:00:00+00:00"},
        {"retries": 1},
        {"timelimit": [10, None]},
    ],
)
def test_messages_with_wishes_run_alone(headers: dict[str, object]) -> None:
    """Another task, a time, a repeat or limits of its own: nothing for a batch."""
    assert not gathering.is_plain({"task": "chio.settle.observe", **headers}, {"job_id": "rcpt-1", "attempt": 0})


@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"observation": {}},
        {"job_id": "rcpt-1", "attempt": 0, "observation": {}},
        {"job_id": "rcpt-1", "attempt": 1},
        {"job_id": "rcpt-1", "attempt": False},
        {"job_id": "rcpt-1", "attempt": 0.0},
        {"job_id": "rcpt-1", "attempt": None},
        {"job_id": ""},
        {"job_id": 1},
        {"job_id": "r" * 201},
    ],
)
def test_what_is_not_a_first_attempt_runs_alone(kwargs: dict[str, object]) -> None:
    """Whoever failed before, brings work along or is malformed is judged alone."""
    assert not gathering.is_plain({"task": "chio.settle.observe"}, kwargs)


def test_messages_that_came_together_are_one_batch() -> None:
    """Nothing is handed on before all that came is read; then it is one message that names every job."""
    line = Line()
    for number in range(3):
        line.gathering.keep(wake_up(f"rcpt-{number}"))
    assert line.handed_on == []
    assert len(line.soon) == 1

    line.soon[0]()

    (gathered,) = line.handed_on
    assert gathered.headers["task"] == "chio.settle.observe_many"
    assert gathered.payload == [[], {"jobs": [["rcpt-0", 0], ["rcpt-1", 0], ["rcpt-2", 0]]}, {}]
    assert batch_messages.decode_batch(gathered.payload[1]).refused == ()
    assert gathered.delivery_info["routing_key"] == "settlement"
    assert "rcpt" not in gathered.headers["kwargsrepr"]


def test_a_single_message_stays_itself() -> None:
    """What came alone runs as the task it names."""
    line, message = Line(), wake_up()
    line.gathering.keep(message)

    line.gathering.hand_on()

    assert line.handed_on == [message]


def test_tasks_and_queues_are_kept_apart() -> None:
    """A batch is of one task from one queue."""
    line = Line()
    for message in (wake_up("a"), wake_up("b", queue="other"), wake_up("c"), wake_up("d", task="chio.deliver.send")):
        line.gathering.keep(message)

    line.gathering.hand_on()

    assert [message.payload[1] for message in line.handed_on] == [
        {"jobs": [["a", 0], ["c", 0]]},
        {"job_id": "b", "attempt": 0},
        {"job_id": "d", "attempt": 0},
    ]


def test_a_full_batch_is_handed_on_at_once() -> None:
    """No batch is larger than the setting allows."""
    line = Line(most=2)
    for number in range(5):
        line.gathering.keep(wake_up(f"rcpt-{number}"))

    line.gathering.hand_on()

    sizes = [len(message.payload[1].get("jobs", ["alone"])) for message in line.handed_on]
    assert sizes == [2, 2, 1]


def test_what_becomes_of_a_batch_becomes_of_each_message() -> None:
    """Every message is acknowledged or given back on its own."""
    done, returned = [wake_up("a"), wake_up("b")], [wake_up("c"), wake_up("d")]

    gathering.GatheredMessage(done).ack_log_error(None, ())
    gathering.GatheredMessage(returned).reject_log_error(None, (), requeue=True)

    assert [message.became for message in done] == [("acknowledged",)] * 2
    assert [message.became for message in returned] == [("rejected True",)] * 2


def test_the_window_follows_whether_somebody_watches() -> None:
    """While tasks run alone a worker holds one message for each of its processes."""
    changes: list[int] = []
    consumer = SimpleNamespace(
        gathers=True,
        app=SimpleNamespace(conf=SimpleNamespace(worker_prefetch_multiplier=32)),
        pool=SimpleNamespace(num_processes=2),
        qos=SimpleNamespace(
            increment_eventually=changes.append, decrement_eventually=lambda number: changes.append(-number)
        ),
        timer=SimpleNamespace(call_repeatedly=lambda *_: None),
    )
    window = gathering.PrefetchWindow(consumer)
    window.start(consumer)

    for consumer.gathers in (True, False, False, True):
        window.look(consumer)

    assert changes == [-62, 62]
