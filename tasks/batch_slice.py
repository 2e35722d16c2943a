"""
One slice of a batch on its way from claimed to recorded, shared by the threads that work on it.

A job waits, is asked about, ends with a step, and is closed when that is recorded. Only the task's own thread records;
a time limit may interrupt it anywhere, so everything it needs to go on stands here and not on its stack.
"""

import threading
from collections import deque
from collections.abc import Sequence
from typing import Final

from storage.jobs import Claim
from tasks import pace, steps
from tasks.recording import Outcome

#: What ended is recorded as soon as there is so much of it: a slice that ends at once goes with one exchange.
CHUNK: Final = pace.MOST


class Slice:
    """Hold the claims of one slice."""

    def __init__(self, claims: Sequence[Claim]) -> None:
        self.size = len(claims)
        #: How many were given back before they began.
        self.given_back = 0
        #: Not begun.
        self.waiting = deque(claims)
        #: With a step, not recorded.
        self.ended: deque[Outcome] = deque()
        #: On their way into the ledger; still here if that was interrupted.
        self.recording: list[Outcome] = []
        #: What an attempt raised that no flow may raise; its lease runs out.
        self.failed: list[BaseException] = []
        #: Told when there is something to record, or nothing more to wait for.
        self.news = threading.Event()
        self._open = {claim.job_id for claim in claims}

    @property
    def is_open(self) -> bool:
        """Tell whether a job is not closed."""
        return bool(self._open)

    @property
    def is_due(self) -> bool:
        """Tell whether a whole chunk, or all that is left, can be recorded."""
        return len(self.ended) >= min(CHUNK, len(self._open))

    def next(self) -> Claim | None:
        """Take the next job that waits."""
        try:
            return self.waiting.popleft()
        except IndexError:
            return None

    def end(self, claim: Claim, step: steps.Step) -> None:
        """Keep what the job came to."""
        self.ended.append(Outcome(claim, step))
        if self.is_due:
            self.news.set()

    def fail(self, claim: Claim, error: BaseException) -> None:
        """Close a job that came to nothing that could be recorded."""
        self.failed.append(error)
        self._open.discard(claim.job_id)

    def take(self) -> Sequence[Outcome]:
        """Take a chunk of what ended, to be recorded and then closed."""
        while self.ended and len(self.recording) < CHUNK:
            self.recording.append(self.ended.popleft())
        return self.recording

    def close(self) -> None:
        """Close what was taken: it is recorded, or lost to another worker."""
        self._open.difference_update(outcome.claim.job_id for outcome in self.recording)
        self.recording = []

    def stop(self, why: str) -> None:
        """Give back what was not begun: it comes again at once, with no attempt spent."""
        while claim := self.next():
            self.given_back += 1
            self.end(claim, steps.Defer(attempt=claim.attempt, delay_ms=0, why=why))

    def abandon(self) -> None:
        """Close what nobody holds any more because a thread was interrupted while it did; the leases run out."""
        if not (self.waiting or self.ended or self.recording):
            self._open.clear()
