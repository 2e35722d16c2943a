"""
The due pump: publishes what the ledger owes. It runs in every worker and needs no beat.

One turn wakes rows that are due and have no message, sends each queue's watermark, feeds the dead-letter queue and
stores what waits for the quarantine. A server that is down is logged once per outage; the next turn tries again.
"""

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import celery
import structlog
from celery import bootsteps

from reliability.dead_letter import DeadLetterRecord
from reliability.errors import PublishError, StorageUnavailableError
from reliability.events import Event
from storage.bundle import Storage
from storage.jobs import JobKind, WakeUp, WakeUpCause
from tasks import crash_points, publishing
from tasks.crash_points import CrashPoint
from tasks.emit import emit

#: How many dead letters one turn publishes.
_FEED_BATCH: Final = 100
#: How many batches of rows one turn wakes before it sees to its other duties.
_MOST_BATCHES: Final = 10
#: How long a stopping worker waits for a turn that is under way, in seconds.
_STOP_LIMIT_S: Final = 5.0

_LOG: Final = structlog.stdlib.get_logger(__name__)


class Publisher(Protocol):
    """Send what the pump owes; each raises `PublishError`."""

    def wake(self, wake_up: WakeUp) -> None:
        """Send the message that wakes a row."""
        ...

    def wake_many(self, wake_ups: Sequence[WakeUp]) -> None:
        """Send one message that wakes rows of one kind and queue."""
        ...

    def mark(self, queue: str, published_at_ms: int) -> None:
        """Send a watermark through a queue."""
        ...

    def dead_letter(self, record: DeadLetterRecord) -> bool:
        """Send a dead letter to the feed; False if the feed is full."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PumpOptions:
    """Hold the pump's numbers and the queues this worker consumes: nobody else would take their marks away."""

    batch: int
    mark_period_ms: int
    republish_ms: int
    queues: Sequence[str]
    #: How many rows one message may wake.
    pack: int = 1
    #: Done at the beginning of each look for rows to wake: outcomes that wait on disk are recorded.
    before_waking: Callable[[], object] = lambda: None


class DuePump:
    """
    Take turns. Knows neither Celery nor threads; every duty stands on its own, so one failure stops no other.

    `on_reached` is called each turn in which the ledger takes writes: one that is full still answers. The first turn
    after an outage wakes nothing, so that the pumps of all hosts get the time to record what waits on their disks
    before its leases count as expired.
    """

    def __init__(
        self,
        storage: Storage,
        publisher: Publisher,
        options: PumpOptions,
        extra_duties: Sequence[Callable[[], object]] = (),
        *,
        on_reached: Callable[[], object] = lambda: None,
    ) -> None:
        self._jobs = storage.jobs
        self._dead_letters = storage.dead_letters
        self._publisher = publisher
        self._options = options
        self._on_reached = on_reached
        self._duties: tuple[Callable[[], object], ...] = (self.wake, self.mark, self.feed, *extra_duties)
        self._failing: set[str] = set()
        self._ledger_was_away = False

    def turn(self) -> bool:
        """Do every duty once, whatever fails; tell whether none did."""
        done = [self._done(duty) for duty in self._duties]
        return all(done)

    def wake(self) -> None:
        """Publish a message for each row that is due and has none; a full batch is followed by the next."""
        self._options.before_waking()
        self._jobs.check_writable()
        self._on_reached()
        if self._ledger_was_away:
            self._ledger_was_away = False
            return
        for _ in range(_MOST_BATCHES):
            woken = self._jobs.due(self._options.batch)
            for pack in packed(woken, self._options.pack):
                crash_points.reach(CrashPoint.PUMP_AFTER_TAKE)
                # A row that is not reached because of an error here is found again as a lost message.
                if len(pack) == 1:
                    self._publisher.wake(pack[0])
                else:
                    self._publisher.wake_many(pack)
                crash_points.reach(CrashPoint.PUMP_AFTER_PUBLISH)
            _report(woken)
            if len(woken) < self._options.batch:
                return

    def mark(self) -> None:
        """Send the mark of each queue that is due for one."""
        for queue in self._options.queues:
            published_at_ms = self._jobs.next_mark(queue, self._options.mark_period_ms)
            if published_at_ms is not None:
                crash_points.reach(CrashPoint.PUMP_BEFORE_MARK)
                self._publisher.mark(queue, published_at_ms)
                crash_points.reach(CrashPoint.PUMP_AFTER_MARK)

    def feed(self) -> None:
        """Publish dead letters whose publication is owed, as far as the feed has room."""
        for record in self._dead_letters.take_unpublished(_FEED_BATCH, self._options.republish_ms):
            crash_points.reach(CrashPoint.PUMP_BEFORE_FEED)
            if not self._publisher.dead_letter(record):
                return
            crash_points.reach(CrashPoint.PUMP_AFTER_FEED)
            self._dead_letters.published(record.receipt_id)
            emit(Event.DEAD_LETTER_PUBLISHED, job_id=record.receipt_id)

    def _done(self, duty: Callable[[], object]) -> bool:
        name = duty.__name__
        try:
            duty()
        except (PublishError, StorageUnavailableError) as error:
            self._ledger_was_away |= isinstance(error, StorageUnavailableError)
            self._log_once(name, error)
            return False
        except Exception as error:  # noqa: BLE001  # the pump is what repairs everything else, so it goes on
            self._log_once(name, error)
            return False
        if name in self._failing:
            self._failing.discard(name)
            _LOG.info("pump.recovered", duty=name)
        return True

    def _log_once(self, duty: str, error: Exception) -> None:
        if duty not in self._failing:
            self._failing.add(duty)
            _LOG.warning("pump.failing", duty=duty, error=type(error).__name__)


def packed(woken: Sequence[WakeUp], size: int) -> Iterator[Sequence[WakeUp]]:
    """
    Yield what goes into one message: rows of one kind and queue, at most `size`.

    A job in whose attempt a worker died is woken alone: if it kills the next one too, it takes no other job along.
    """
    together: defaultdict[tuple[JobKind, str], list[WakeUp]] = defaultdict(list)
    for wake_up in woken:
        if wake_up.alone or wake_up.cause is WakeUpCause.LEASE_EXPIRED:
            yield [wake_up]
        else:
            together[wake_up.kind, wake_up.queue].append(wake_up)
    for group in together.values():
        yield from (group[start : start + size] for start in range(0, len(group), size))


def _report(woken: Sequence[WakeUp]) -> None:
    """Log repairs one by one, and jobs that simply became due as a number."""
    due = Counter(wake_up.queue for wake_up in woken if wake_up.cause is WakeUpCause.PARKED)
    for queue, count in due.items():
        emit(Event.PUMP_WOKE, queue=queue, cause=WakeUpCause.PARKED.value, count=count)
    for wake_up in woken:
        if wake_up.cause is not WakeUpCause.PARKED:
            emit(
                Event.PUMP_WOKE,
                job_id=wake_up.job_id,
                attempt=wake_up.attempt,
                queue=wake_up.queue,
                cause=wake_up.cause.value,
            )


class CeleryPublisher:
    """Send through the app's own pool of connections, which the consumer does not use."""

    def __init__(self, app: celery.Celery, feed_max_length: int) -> None:
        self._app = app
        self._feed_max_length = feed_max_length

    def wake(self, wake_up: WakeUp) -> None:
        """Send the message that wakes a row."""
        publishing.publish_attempt(self._app, wake_up.kind, wake_up.queue, wake_up.job_id, wake_up.attempt)

    def wake_many(self, wake_ups: Sequence[WakeUp]) -> None:
        """Send one message that wakes rows of one kind and queue."""
        wanted = [(wake_up.job_id, wake_up.attempt) for wake_up in wake_ups]
        publishing.publish_batch(self._app, wake_ups[0].kind, wake_ups[0].queue, wanted)

    def mark(self, queue: str, published_at_ms: int) -> None:
        """Send a watermark through a queue."""
        publishing.publish_mark(self._app, queue, published_at_ms)

    def dead_letter(self, record: DeadLetterRecord) -> bool:
        """Send a dead letter to the feed; False if the feed is full."""
        return publishing.publish_dead_letter(self._app, record, self._feed_max_length)


class PumpThread(bootsteps.StartStopStep):  # type: ignore[misc]  # Celery ships no types
    """Run the pump beside the worker's main loop, from after the pool is forked until the worker stops."""

    requires = ("celery.worker.components:Pool",)

    def __init__(self, worker: Any, **_: Any) -> None:
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        worker.pump = self

    def start(self, worker: Any) -> None:
        """Start the thread."""
        composition = worker.app.composition
        pump = composition.pump(worker.app, list(worker.app.amqp.queues.consume_from))
        arguments = (pump.turn, composition.pump_period_s)
        self._thread = threading.Thread(target=self._run, args=arguments, name="due-pump", daemon=True)
        self._thread.start()

    def stop(self, _worker: Any) -> None:
        """Stop after the turn that is under way."""
        self._stopping.set()
        if self._thread:
            self._thread.join(_STOP_LIMIT_S)

    terminate = stop

    def _run(self, turn: Callable[[], object], period_s: float) -> None:
        while not self._stopping.wait(period_s):
            turn()
