"""The due pump's duties on memory stores: what it wakes, what it sends, and that nothing stops it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
import structlog

from reliability.dead_letter import DeadLetterRecord
from reliability.errors import PublishError, StorageUnavailableError
from storage.bundle import Storage, memory_storage
from storage.jobs import Reschedule, WakeUp, WakeUpCause
from tests.support import builders
from tests.support.clock import ManualClock
from worker.due_pump import DuePump, PumpOptions


@dataclass
class Sent:
    """Note what is published; fail while `broken`."""

    woken: list[WakeUp] = field(default_factory=list)
    packs: list[list[str]] = field(default_factory=list)
    marks: list[tuple[str, int]] = field(default_factory=list)
    dead: list[DeadLetterRecord] = field(default_factory=list)
    broken: bool = False
    feed_is_full: bool = False

    def wake(self, wake_up: WakeUp) -> None:
        """Note a wake-up."""
        self._fail("a wake-up", wake_up.queue)
        self.woken.append(wake_up)

    def wake_many(self, wake_ups: Sequence[WakeUp]) -> None:
        """Note wake-ups that go in one message."""
        self._fail("wake-ups", wake_ups[0].queue)
        self.packs.append([wake_up.job_id for wake_up in wake_ups])

    def mark(self, queue: str, published_at_ms: int) -> None:
        """Note a mark."""
        self._fail("a mark", queue)
        self.marks.append((queue, published_at_ms))

    def dead_letter(self, record: DeadLetterRecord) -> bool:
        """Note a dead letter, unless the feed is full."""
        self._fail("a dead letter", "feed")
        if not self.feed_is_full:
            self.dead.append(record)
        return not self.feed_is_full

    def _fail(self, what: str, queue: str) -> None:
        if self.broken:
            raise PublishError(what, queue)


@dataclass
class Bench:
    """Hold a pump with everything around it."""

    clock: ManualClock = field(default_factory=ManualClock)
    sent: Sent = field(default_factory=Sent)
    batch: int = 100
    pack: int = 1

    def __post_init__(self) -> None:
        self.storage: Storage = memory_storage(self.clock)
        options = PumpOptions(
            batch=self.batch, mark_period_ms=1_000, republish_ms=30_000, queues=["settlement"], pack=self.pack
        )
        self.pump = DuePump(self.storage, self.sent, options)

    def park(self, job_id: str, delay_ms: int) -> None:
        """Put a job aside without a message."""
        self.storage.jobs.admit(builders.job(job_id))
        claim = builders.claimed(self.storage.jobs, job_id)
        self.storage.jobs.record(claim, Reschedule(attempt=1, delay_ms=delay_ms, publishes=False))


def test_a_parked_job_is_woken_when_it_is_due() -> None:
    """A parked row gets its message when its time has come, and not before."""
    bench = Bench()
    bench.park("rcpt-1", 5_000)

    bench.pump.turn()
    assert bench.sent.woken == []
    bench.clock.advance(5_000)
    bench.pump.turn()

    (woken,) = bench.sent.woken
    assert (woken.job_id, woken.attempt, woken.cause) == ("rcpt-1", 1, WakeUpCause.PARKED)


def test_a_job_is_woken_once() -> None:
    """Two turns, or two pumps, send one message."""
    bench = Bench()
    bench.park("rcpt-1", 1)
    bench.clock.advance(10)

    bench.pump.turn()
    bench.pump.turn()

    assert len(bench.sent.woken) == 1


def test_one_turn_wakes_more_than_a_batch() -> None:
    """A full batch is followed by the next in the same turn."""
    bench = Bench(batch=2)
    for number in range(5):
        bench.park(f"rcpt-{number}", 1)
    bench.clock.advance(10)

    bench.pump.turn()

    assert len(bench.sent.woken) == 5


def test_rows_that_are_due_together_share_messages() -> None:
    """Parked rows of one queue go in messages of the given size, the last one alone; none is left out."""
    bench = Bench(pack=2)
    for number in range(5):
        bench.park(f"rcpt-{number}", 1)
    bench.clock.advance(10)

    bench.pump.turn()

    assert [len(pack) for pack in bench.sent.packs] == [2, 2]
    alone = [wake_up.job_id for wake_up in bench.sent.woken]
    together = [job_id for pack in bench.sent.packs for job_id in pack]
    assert sorted([*alone, *together]) == [f"rcpt-{number}" for number in range(5)]


def test_a_job_that_cost_a_worker_is_woken_alone() -> None:
    """A row whose lease expired gets a message of its own: if it kills the next worker, it takes no other along."""
    bench = Bench(pack=10)
    for number in range(2):
        bench.storage.jobs.admit(builders.job(f"rcpt-{number}"))
        builders.claimed(bench.storage.jobs, f"rcpt-{number}", by=builders.lease(lease_ms=1_000))
    bench.clock.advance(2_000)

    bench.pump.turn()

    assert [wake_up.cause for wake_up in bench.sent.woken] == [WakeUpCause.LEASE_EXPIRED] * 2
    assert bench.sent.packs == []


def test_a_job_that_cost_a_worker_stays_alone() -> None:
    """After its retry was parked and is due again, it still shares no message with the jobs due beside it."""
    bench = Bench(pack=10)
    for name in "abc":
        bench.park(name, 30_000)
    builders.admitted_and_claimed(bench.storage.jobs, builders.job("killer"), builders.lease(lease_ms=1_000))
    bench.clock.advance(2_000)
    bench.pump.turn()
    claim = builders.claimed(bench.storage.jobs, "killer")
    bench.storage.jobs.record(claim, Reschedule(attempt=1, delay_ms=28_000, publishes=False))
    bench.clock.advance(30_000)

    bench.pump.turn()

    assert [wake_up.job_id for wake_up in bench.sent.woken] == ["killer", "killer"]
    assert bench.sent.packs == [["a", "b", "c"]]


def test_jobs_of_two_kinds_share_no_message() -> None:
    """Settlements and deliveries are woken by different tasks."""
    bench = Bench(pack=10)
    for name in "ab":
        bench.park(name, 1)
    delivery = builders.admitted_and_claimed(bench.storage.jobs, builders.delivery_job(queue="settlement"))
    bench.storage.jobs.record(delivery, Reschedule(attempt=1, delay_ms=1, publishes=False))
    bench.clock.advance(10)

    bench.pump.turn()

    assert bench.sent.packs == [["a", "b"]]
    assert [wake_up.job_id for wake_up in bench.sent.woken] == [delivery.job_id]


def test_each_period_has_one_mark() -> None:
    """A queue's mark carries the store's time and is sent once a period."""
    bench = Bench()

    bench.pump.turn()
    bench.pump.turn()
    bench.clock.advance(1_500)
    bench.pump.turn()

    start_ms = ManualClock().now_ms()
    assert bench.sent.marks == [("settlement", start_ms), ("settlement", start_ms + 1_500)]


def test_a_wake_up_that_was_not_published_is_made_up_for() -> None:
    """A message the broker did not take counts as lost and is sent again once a later mark was consumed."""
    bench = Bench()
    bench.park("rcpt-1", 1)
    bench.clock.advance(10)
    bench.sent.broken = True
    bench.pump.turn()
    bench.sent.broken = False
    bench.clock.advance(10_000)

    bench.storage.jobs.mark_consumed("settlement", bench.clock.now_ms())
    bench.pump.turn()

    (woken,) = bench.sent.woken
    assert (woken.job_id, woken.cause) == ("rcpt-1", WakeUpCause.MESSAGE_LOST)


def test_an_owed_dead_letter_is_fed_and_noted() -> None:
    """A stored dead letter reaches the feed once, and is owed no longer."""
    bench = Bench()
    bench.storage.dead_letters.append(builders.dead_letter())
    bench.clock.advance(60_000)

    bench.pump.turn()
    bench.pump.turn()

    assert [record.receipt_id for record in bench.sent.dead] == ["rcpt-1"]
    assert bench.storage.dead_letters.unpublished_count() == 0


def test_a_full_feed_leaves_dead_letters_owed() -> None:
    """What the feed has no room for stays owed in the store."""
    bench = Bench()
    bench.sent.feed_is_full = True
    bench.storage.dead_letters.append(builders.dead_letter())
    bench.clock.advance(60_000)

    bench.pump.turn()

    assert bench.storage.dead_letters.unpublished_count() == 1


@pytest.mark.parametrize(
    "error", [StorageUnavailableError("due", "chio:parked"), PublishError("a mark", "settlement"), RuntimeError("bug")]
)
def test_no_failure_stops_the_pump(error: Exception) -> None:
    """A duty that fails leaves the others done, is logged once per outage, and its recovery is logged too."""
    bench, failing = Bench(), [True]

    def duty() -> None:
        if failing:
            raise error

    pump = DuePump(
        bench.storage,
        bench.sent,
        PumpOptions(batch=1, mark_period_ms=1_000, republish_ms=1, queues=["settlement"]),
        (duty,),
    )
    with structlog.testing.capture_logs() as logged:
        outcomes = [pump.turn(), pump.turn()]
        failing.clear()
        outcomes.append(pump.turn())

    assert outcomes == [False, False, True]
    assert len(bench.sent.marks) == 1
    assert [line["event"] for line in logged] == ["pump.failing", "pump.recovered"]
    assert "bug" not in repr(logged)


def test_a_ledger_that_takes_writes_is_told() -> None:
    """Each turn tells it, though nothing is due, so that health can say when it was so last."""
    bench, told = Bench(), []
    options = PumpOptions(batch=1, mark_period_ms=1_000, republish_ms=1, queues=[])
    pump = DuePump(bench.storage, bench.sent, options, on_reached=lambda: told.append(1))

    pump.turn()
    pump.turn()

    assert told == [1, 1]


def test_a_ledger_that_takes_no_writes_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full ledger still says what is due, which is nothing: no turn of such an outage counts as reaching it."""
    bench, told, full = Bench(), [], [True]

    def check_writable() -> None:
        if full:
            raise StorageUnavailableError("check_writable", "the ledger")

    monkeypatch.setattr(bench.storage.jobs, "check_writable", check_writable)
    options = PumpOptions(batch=1, mark_period_ms=1_000, republish_ms=1, queues=[])
    pump = DuePump(bench.storage, bench.sent, options, on_reached=lambda: told.append(1))
    during = [pump.turn() for _ in range(3)]
    told_during = list(told)
    full.clear()

    assert (during, told_during) == ([False] * 3, [])
    assert pump.turn()
    assert told == [1]
