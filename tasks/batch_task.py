"""
A batch of attempts on Celery: decode, run what can be begun in time, publish what follows, give back the rest.

What a job of the batch leads to is published on its own or with others that are due at the same time; the batch's own
message comes again only for what was not begun. `ObserveSettlements` and `SendDeliveries` are the two kinds.
"""

from collections.abc import Mapping, Sequence
from typing import Generic

from celery.exceptions import SoftTimeLimitExceeded

from reliability.dead_letter import DeadLetterRecord
from reliability.errors import InvalidInputError, PublishError, StorageUnavailableError
from reliability.events import Event
from storage.jobs import JobKind
from tasks import batch_messages, crash_points, feed, packing, publishing
from tasks.attempt_flow import AttemptFlow, QuestionT
from tasks.base import UNREACHABLE_RETRY_MS, RuntimeTask
from tasks.batch_flow import BatchParts, BatchRun
from tasks.batch_messages import JOBS, BatchMessage, Wanted
from tasks.crash_points import CrashPoint
from tasks.emit import warn
from tasks.packing import Wake


class BatchTask(RuntimeTask, Generic[QuestionT]):
    """Run attempts of up to 1,000 jobs of one kind; called with `jobs`, a list of `[job_id, attempt]`."""

    abstract = True
    kind: JobKind

    def flow(self) -> AttemptFlow[QuestionT]:
        """Return the flow of this kind."""
        raise NotImplementedError

    def run(self, **kwargs: object) -> None:
        """Run the batch; a message that is none is quarantined, and so is each pair that is none, alone."""
        message = self._decode(kwargs)
        batch = BatchRun(
            parts=self._parts(),
            kind=self.kind,
            flow=self.flow(),
            after=self,
            left=list(message.wanted),
            ordered=message.ordered,
        )
        try:
            batch.run()
        except (StorageUnavailableError, SoftTimeLimitExceeded):
            # Nothing is assumed: what was not claimed comes again; what was, its lease brings back.
            self._end(batch, len(message.wanted), UNREACHABLE_RETRY_MS)
            raise
        self._end(batch, len(message.wanted), 0)
        crash_points.reach(CrashPoint.BEFORE_ACKNOWLEDGE)

    def wake(self, wakes: Sequence[Wake]) -> None:
        """Send the messages that wake these attempts; what the broker does not take is found as lost."""
        crash_points.reach(CrashPoint.BEFORE_RETRY_PUBLISH)
        try:
            for pack in packing.packs(wakes, self.runtime.batch.size):
                publishing.publish_batch(self.app, self.kind, self.queue, pack.wanted, pack.delay_ms / 1000)
                crash_points.reach(CrashPoint.AFTER_RETRY_PUBLISH)
        except PublishError:
            warn(Event.PUBLISH_FAILED, queue=self.queue, count=len(wakes))

    def share(self, wanted: Sequence[Wanted]) -> bool:
        """Send attempts that were not begun to whoever has time."""
        try:
            publishing.publish_batch(self.app, self.kind, self.queue, wanted)
        except PublishError:
            return False
        return True

    def bury(self, record: DeadLetterRecord) -> None:
        """Send a dead letter that is stored to the feed."""
        feed.send(self.app, self.runtime.storage.dead_letters, record, self.runtime.dead_letter_feed_max_length)

    def set_pair_aside(self, pair: Wanted, error: InvalidInputError) -> None:
        """Keep a pair whose row is damaged; a store that does not take it is told again by the next wake-up."""
        try:
            self.set_aside({JOBS: [list(pair)]}, f"invalid_message:{error.field}")
        except StorageUnavailableError:
            warn(Event.MESSAGE_QUARANTINED, queue=self.queue, why="not stored", field=error.field)

    def _decode(self, kwargs: Mapping[str, object]) -> BatchMessage:
        try:
            message = batch_messages.decode_batch(kwargs)
        except InvalidInputError as error:
            self.quarantine(kwargs, error)
            return BatchMessage(wanted=())
        for pair in message.refused:
            self.quarantine({JOBS: [pair.found]}, pair.error)
        return message

    def _parts(self) -> BatchParts:
        runtime = self.runtime
        return BatchParts(
            ledger=runtime.storage.jobs,
            recorder=runtime.recorder,
            keeper=runtime.keeper,
            new_lease=runtime.new_lease,
            batch=runtime.batch,
            interruption=SoftTimeLimitExceeded,
        )

    def _end(self, batch: BatchRun[QuestionT], count: int, delay_ms: int) -> None:
        """Tell what became of the batch; ask again for what was not begun; raise what no attempt may raise."""
        batch.report.counts["given_back"] += len(batch.left)
        batch.report.tell(self.kind, count)
        if batch.left and not (batch.failed and self.share(batch.left)):
            self.come_back(delay_ms / 1000, **{JOBS: [list(pair) for pair in batch.left]})
        for error in batch.failed:
            raise error
