"""
The producers of a run: they hand work in the whole time, in every way there is, and remember what they were told.

What the ledger said yes to is owed by the product from then on. What went to the broker alone, as a foreign producer
sends it, is owed once it is admitted: a broker may lose it before.
"""

import random
import threading
from collections.abc import Sequence

from kombu.exceptions import OperationalError

from reliability.errors import PublishError, StorageUnavailableError
from storage.jobs import Conflict, Duplicate, JobKind, NewJob
from tasks import enqueue, names
from tasks.publishing import NO_LIMITS
from tests.chaos.work import Piece, Workshop
from tests.support.operator import Operator

#: A producer hands in as often as this, in seconds.
_PERIOD_S = 0.25
_BATCH_SIZE = 25
#: Of so many turns one goes to another way of handing in.
_TURNS = 20


class Producer:
    """Hand in work at a steady rate."""

    def __init__(self, operator: Operator, workshop: Workshop, chance: random.Random, jobs_per_s: int) -> None:
        self._operator = operator
        self._workshop = workshop
        self._chance = chance
        self._at_once = max(1, round(jobs_per_s * _PERIOD_S))
        #: Pieces that were handed in without an answer: they are handed in again, the same.
        self._unsure: list[Piece] = []
        #: What the ledger said yes to, by job id.
        self.told: dict[str, Piece] = {}
        #: What went to the broker alone.
        self.offered: dict[str, Piece] = {}
        self.refusals = 0
        self.findings: list[str] = []

    def run(self, stopping: threading.Event) -> None:
        """Hand in until told to stop, then see every unsure piece through."""
        while not stopping.wait(_PERIOD_S):
            self.turn()

    def finish(self) -> bool:
        """Hand in what nobody answered for; tell whether that is all."""
        self._admit(self._take_unsure(), batch_size=1)
        return not self._unsure

    def turn(self) -> None:
        """Hand in some work, one way or another."""
        way = self._chance.randrange(_TURNS)
        pieces = [self._piece() for _ in range(self._at_once)]
        if way < _TURNS // 10:
            self._offer([piece for piece in pieces if piece.job.kind is JobKind.SETTLEMENT])
            pieces = [piece for piece in pieces if piece.job.kind is not JobKind.SETTLEMENT]
        if way == _TURNS - 1:
            self._repeat()
        self._admit([*self._take_unsure(), *pieces], batch_size=_BATCH_SIZE if way >= _TURNS * 3 // 4 else 1)

    def _piece(self) -> Piece:
        return self._workshop.delivery() if self._chance.random() < 0.2 else self._workshop.settlement()

    def _take_unsure(self) -> list[Piece]:
        taken, self._unsure = self._unsure, []
        return taken

    def _admit(self, pieces: Sequence[Piece], batch_size: int) -> None:
        try:
            answers = enqueue.enqueue_many(
                self._operator.app, self._operator.storage.jobs, [piece.job for piece in pieces], batch_size
            )
        except StorageUnavailableError:
            self.refusals += 1
            self._unsure += pieces
            return
        for piece, answer in zip(pieces, answers, strict=True):
            if isinstance(answer, Conflict):
                self.findings.append(f"{piece.job.job_id} was handed in with one body and called a conflict")
            self.told[piece.job.job_id] = piece

    def _offer(self, pieces: Sequence[Piece]) -> None:
        """Send whole observations to the broker, as another code base does."""
        for piece in pieces:
            try:
                self._operator.app.send_task(
                    names.OBSERVE_SETTLEMENT,
                    kwargs={"observation": piece.wire()},
                    queue=names.SETTLEMENT_QUEUE,
                    **NO_LIMITS,
                )
            except (OperationalError, OSError, PublishError):
                self.refusals += 1
            self.offered[piece.job.job_id] = piece

    def _repeat(self) -> None:
        """Hand the same work in again, and other work under a known id: neither may change anything."""
        if not self.told:
            return
        piece = self.told[self._chance.choice(list(self.told))]
        changed = NewJob(
            job_id=piece.job.job_id,
            kind=piece.job.kind,
            queue=piece.job.queue,
            payload=piece.job.payload + b" ",
            finalized_at=piece.job.finalized_at,
        )
        try:
            answers = self._operator.storage.jobs.admit_many([piece.job, changed])
        except StorageUnavailableError:
            return
        if not isinstance(answers[0], Duplicate) or not isinstance(answers[1], Conflict):
            self.findings.append(f"{piece.job.job_id} came again and was answered {answers}")
