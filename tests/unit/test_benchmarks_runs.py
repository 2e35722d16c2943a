"""What the benchmarks send and how they read it back: ids that carry an instant, a steady pace, copied messages."""

import base64
import itertools
import json

import pytest

from benchmarks import backlog_filler, contenders, effects, producing, receiver, runs
from benchmarks.producing import Order
from benchmarks.runs import Drained
from reliability.settlement import SettlementObservation
from tasks import messages

INSTANT_NS = 1_760_000_000_123_456_789


def drained(**figures: float) -> Drained:
    """Make a drained backlog, its figures 1 unless given."""
    return Drained(**{**dict.fromkeys(Drained.__slots__, 1.0), **figures})


def test_id_tells_when_its_job_was_sent() -> None:
    """The instant in an id is read back to the nanosecond."""
    job_id = producing.job_id(42, INSTANT_NS)

    assert producing.sent_at_ns(job_id) == INSTANT_NS


def test_id_can_be_a_receipt() -> None:
    """Ids that all queues are given are receipts that this project admits."""
    from benchmarks import chio_producer  # noqa: PLC0415  # makes an app's modules, which only this test needs

    observation = SettlementObservation.from_json(chio_producer.line(producing.job_id(1, INSTANT_NS)))

    assert messages.admissible_settlement(observation, 65_536).job_id == producing.job_id(1, INSTANT_NS)


def test_pace_is_kept_by_the_clock() -> None:
    """Each job waits for its own instant, so that no delay adds up."""
    now_s = itertools.count(100.0, 0.001)

    waits = [wait_s for _, wait_s in producing.paced(Order(count=3, rate_per_s=10), lambda: next(now_s))]

    assert waits == pytest.approx([0.099, 0.198, 0.297])


def test_late_job_is_sent_at_once() -> None:
    """A job whose instant has passed waits not at all, and none is left out."""
    now_s = iter([0.0, 5.0, 5.0])

    sent = list(producing.paced(Order(count=2, rate_per_s=10), lambda: next(now_s)))

    assert sent == [(1, 0.0), (2, 0.0)]


def test_webhook_body_has_its_size_and_tells_when_it_was_sent() -> None:
    """A body is 1,000 bytes of JSON, and the receiver reads from its beginning how long it took."""
    body = effects.delivery_body(producing.job_id(1, INSTANT_NS)).encode()

    assert len(body) == effects.BODY_BYTES
    assert json.loads(body)["id"] == producing.job_id(1, INSTANT_NS)
    assert receiver.latency_ms(body[:120], INSTANT_NS + 2_500_000) == 2.5


def test_body_without_id_is_refused() -> None:
    """The receiver measures nothing that was not sent by a producer of these benchmarks."""
    with pytest.raises(ValueError, match="expected an id"):
        receiver.latency_ms(b"{}", INSTANT_NS)


def test_copied_messages_carry_their_own_ids() -> None:
    """A copy differs from the published message in its ids and its delivery tag, and in nothing else."""
    body = base64.b64encode(json.dumps([[], {"job_id": "rcpt-one", "attempt": 0}, {}]).encode()).decode()
    properties = {"correlation_id": "rcpt-one", "delivery_tag": "tag", "body_encoding": "base64"}
    headers = {"id": "rcpt-one", "root_id": "rcpt-one", "task": "chio.settle.observe"}
    template = json.dumps({"body": body, "headers": headers, "properties": properties}).encode()

    copied = json.loads(backlog_filler.copies(template, ["rcpt-two"])[0])

    assert copied["headers"] == {"id": "rcpt-two", "root_id": "rcpt-two", "task": "chio.settle.observe"}
    assert copied["properties"] == {
        "correlation_id": "rcpt-two",
        "delivery_tag": "rcpt-two",
        "body_encoding": "base64",
    }
    assert json.loads(base64.b64decode(copied["body"])) == [[], {"job_id": "rcpt-two", "attempt": 0}, {}]


def test_median_is_taken_of_each_figure_alone() -> None:
    """The median run is made of the median of every figure; it need not be a run that happened."""
    found = runs.median_of(
        [
            drained(jobs_per_s=10, commands_per_job=3),
            drained(jobs_per_s=30, commands_per_job=1),
            drained(jobs_per_s=20, commands_per_job=2),
        ]
    )

    assert found == drained(jobs_per_s=20, commands_per_job=2)


def test_callers_settings_reach_no_contender(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that somebody cares about is never measured: only the benchmark's own settings reach its programs."""
    monkeypatch.setenv("CHIO_REDIS_URL", "redis://production:6379/0")
    monkeypatch.setenv("CHIO_LEASE_MS", "1")

    environment = contenders.CHIO.environment_in("redis://127.0.0.1:1", contenders.ROOT)

    assert environment["CHIO_REDIS_URL"] == "redis://127.0.0.1:1/0"
    assert "CHIO_LEASE_MS" not in environment


def test_every_queue_has_a_name_of_its_own() -> None:
    """Figures are kept by name, so no two queues share one."""
    names = [contender.name for contender in (*contenders.ALL, contenders.CHIO_BATCHES)]

    assert len(set(names)) == len(names)
