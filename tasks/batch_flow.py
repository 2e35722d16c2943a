"""
One batch message, from its ids to recorded outcomes: claim a slice, ask the hook, record what comes in, go on.

A slice is claimed when it is about to begin, so a worker that dies costs few jobs an attempt, and nothing that was
recorded is repeated. What cannot begin in time is given back. Knows no Celery; `batch_task` publishes what follows.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, assert_never

from reliability.dead_letter import DeadLetterRecord
from reliability.errors import InvalidInputError, StorageUnavailableError
from reliability.events import Event
from storage import jobs
from storage.protocols import JobStorage
from tasks import attempt_flow, batch_ways, crash_points, steps
from tasks.attempt_flow import AttemptFlow, QuestionT
from tasks.batch_messages import Wanted
from tasks.batch_runtime import BatchRuntime
from tasks.batch_slice import Slice
from tasks.batch_ways import Way
from tasks.crash_points import CrashPoint
from tasks.emit import warn
from tasks.hooks import http_loop
from tasks.packing import Wake
from tasks.recording import Outcome, Recorder
from tasks.reporting import BatchReport
from tasks.runtime import LeaseKeeper

#: What ended is recorded at least this often, in ms.
RECORD_EVERY_MS: Final = 200
_OUT_OF_TIME: Final = "batch out of time"


class Aftermath(Protocol):
    """Publish what a batch leads to; whatever fails there is owed by the ledger."""

    def wake(self, wakes: Sequence[Wake]) -> None:
        """Send the messages that wake these attempts after their delays."""
        ...

    def share(self, wanted: Sequence[Wanted]) -> bool:
        """Send attempts that were not begun to whoever has time; False if the broker did not take them."""
        ...

    def bury(self, record: DeadLetterRecord) -> None:
        """Send a dead letter that is stored to the feed."""
        ...

    def set_pair_aside(self, pair: Wanted, error: InvalidInputError) -> None:
        """Keep a pair whose row is damaged."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchParts:
    """Hold what a batch works with."""

    ledger: JobStorage
    recorder: Recorder
    keeper: LeaseKeeper
    new_lease: Callable[[], jobs.Lease]
    batch: BatchRuntime
    #: What a time limit raises in the task's own thread, wherever that is.
    interruption: type[Exception]


@dataclass(slots=True, kw_only=True)
class BatchRun(Generic[QuestionT]):
    """
    Run one batch. `left` are the attempts that were not claimed: the message is to ask for them again.

    `ordered` says that they stand in the order of their jobs already.
    """

    parts: BatchParts
    kind: jobs.JobKind
    flow: AttemptFlow[QuestionT]
    after: Aftermath
    left: list[Wanted]
    ordered: bool = False
    report: BatchReport = field(default_factory=BatchReport)
    #: What attempts raised that no flow may raise.
    failed: list[BaseException] = field(default_factory=list)
    _end_at_ms: int = field(default=0, init=False)
    _recorded_at_ms: int = field(default=0, init=False)

    def run(self) -> None:
        """
        Run what can be begun in time, at least one slice.

        Raises:
            StorageUnavailableError: if the store does not answer.

        """
        pace, begun_at_ms = self.parts.batch.paces[self.kind], self._now_ms()
        self._end_at_ms = begun_at_ms + self.parts.batch.box_ms
        if not self.ordered and len(self.left) > pace.size:
            self._put_in_order()
        while self.left and begun_at_ms < self._end_at_ms:
            self._share(pace.within(self._end_at_ms - begun_at_ms))
            count = self._run_slice(pace.size)
            ended_at_ms = self._now_ms()
            if count:
                pace.took(count, ended_at_ms - begun_at_ms)
            begun_at_ms = ended_at_ms

    def _put_in_order(self) -> None:
        """Put all attempts in the order of their jobs; those of one slice are ordered when they are claimed."""
        finalized_at = self.parts.ledger.finalized_at_many([job_id for job_id, _ in self.left])
        keyed = sorted(
            zip(finalized_at, self.left, strict=True),
            key=lambda entry: (math.inf if entry[0] is None else entry[0], entry[1][0].encode()),
        )
        self.left = [wanted for _, wanted in keyed]

    def _share(self, fitting: int | None) -> None:
        """Give away at once what would take too long here: another worker may have time."""
        if fitting is not None and len(self.left) > fitting and self.after.share(self.left[fitting:]):
            self.report.counts["given_back"] += len(self.left) - fitting
            del self.left[fitting:]

    def _run_slice(self, size: int) -> int:
        crash_points.reach(CrashPoint.BEFORE_CLAIM)
        wanted = self.left[:size]
        answers = self.parts.ledger.claim_many(wanted, self.parts.new_lease())
        del self.left[:size]
        crash_points.reach(CrashPoint.AFTER_CLAIM)
        claims = self._claims(wanted, answers)
        begun = 0
        with self.parts.keeper.keep(*claims):
            for work, way in self._ways(claims):
                try:
                    self._see_through(work, way)
                finally:
                    # Threads that are still at work begin nothing more once nobody would record it.
                    work.waiting.clear()
                self.failed += work.failed
                begun += work.size - work.given_back
        return begun

    def _claims(
        self, wanted: Sequence[Wanted], answers: Sequence[jobs.ClaimResult | Exception]
    ) -> Sequence[jobs.Claim]:
        claims: list[jobs.Claim] = []
        wakes: list[Wake] = []
        for pair, answer in zip(wanted, answers, strict=True):
            match answer:
                case jobs.Claim():
                    claims.append(answer)
                case jobs.NotDue(remaining_ms=remaining_ms):
                    wakes.append(Wake(*pair, remaining_ms))
                    self.report.counts["early"] += 1
                case jobs.Refused():
                    self.report.counts["stale"] += 1
                case StorageUnavailableError():
                    wakes.append(Wake(*pair, attempt_flow.UNREACHABLE_DELAY_MS))
                case InvalidInputError():
                    self.after.set_pair_aside(pair, answer)
                case _:
                    raise answer
        self._wake(wakes)
        return sorted(claims, key=lambda claim: (claim.finalized_at, claim.job_id.encode()))

    def _ways(self, claims: Sequence[jobs.Claim]) -> Iterator[tuple[Slice, Way]]:
        """Yield the jobs whose hook is asked to act, with the way to ask it, then the rest, which needs threads."""
        for claim in claims:
            if claim.cause is jobs.ClaimCause.LEASE_EXPIRED:
                warn(Event.JOB_LEASE_EXPIRED, job_id=claim.job_id, attempt=claim.attempt)
        due = [claim for claim in claims if claim.cause is jobs.ClaimCause.DUE]
        rest = [claim for claim in claims if claim.cause is not jobs.ClaimCause.DUE]
        for part, way_of in ((due, self._way), (rest, self._in_threads)):
            if part:
                work = Slice(part)
                yield work, way_of(work)

    def _way(self, work: Slice) -> Way:
        if ask_many := self.flow.asks_many:
            return batch_ways.AtOnce(work, self.flow, ask_many)
        if ask_async := self.flow.asks_async:
            loop, most = http_loop.current().loop, self.parts.batch.concurrency
            return batch_ways.OnLoop(work, self.flow, ask_async, loop, most)
        return self._in_threads(work)

    def _in_threads(self, work: Slice) -> Way:
        batch = self.parts.batch
        return batch_ways.InThreads(work, self.flow.run, batch.threads, batch.concurrency)

    def _see_through(self, work: Slice, way: Way) -> None:
        self._recorded_at_ms = self._now_ms()
        while work.is_open:
            try:
                way.advance()
                self._look_after(work)
            except self.parts.interruption:
                # Begin nothing more; what runs is waited for, up to the hard limit, and recorded.
                self._end_at_ms = self._now_ms()
                work.stop(_OUT_OF_TIME)
                way.interrupt()
            if not way.is_busy:
                work.abandon()

    def _look_after(self, work: Slice) -> None:
        """Give back what has not begun when the time is up; record a chunk, or what ended for a while."""
        now_ms = self._now_ms()
        if now_ms >= self._end_at_ms:
            work.stop(_OUT_OF_TIME)
        if work.is_due or now_ms - self._recorded_at_ms >= RECORD_EVERY_MS or work.recording:
            while outcomes := work.take():
                self._record(outcomes)
                work.close()
            self._recorded_at_ms = now_ms

    def _record(self, outcomes: Sequence[Outcome]) -> None:
        crash_points.reach(CrashPoint.BEFORE_RECORD)
        recorded = self.parts.recorder.record(outcomes)
        crash_points.reach(CrashPoint.AFTER_RECORD)
        wakes: list[Wake] = []
        for outcome in recorded:
            self.report.add(outcome.claim, outcome.step)
            match outcome.step:
                case (
                    steps.RetryAfter(attempt=attempt, delay_ms=delay_ms)
                    | steps.Defer(attempt=attempt, delay_ms=delay_ms)
                ):
                    alone = outcome.claim.cause is jobs.ClaimCause.LEASE_EXPIRED
                    wakes.append(Wake(outcome.claim.job_id, attempt, delay_ms, alone=alone))
                case steps.DeadLettered(record=record):
                    self.after.bury(record)
                case steps.Done() | steps.AwaitReceipt():
                    pass
                case _:
                    assert_never(outcome.step)
        self._wake(wakes)

    def _wake(self, wakes: Sequence[Wake]) -> None:
        # A longer delay than one hop is parked in the ledger, and the pump wakes the row.
        within_hop = [wake for wake in wakes if wake.delay_ms <= self.parts.recorder.max_hop_ms]
        if within_hop:
            self.after.wake(within_hop)

    def _now_ms(self) -> int:
        return self.parts.batch.monotonic_ms()
