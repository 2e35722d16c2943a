"""What `record_many` and concurrent recordings promise."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor

from reliability.errors import DeadLetterConflictError, InvalidInputError, StaleClaimError
from storage.jobs import (
    Bury,
    Finish,
    FinishedAs,
    JobKind,
    Reschedule,
)
from tests.support import builders
from tests.support.backends import Backend

SETTLED = Finish(finished_as=FinishedAs.SETTLED)


def test_record_many_answers_each(backend: Backend) -> None:
    """Each pair of a batch is recorded as alone; an error stands in its place and stops nothing."""
    jobs = backend.storage.jobs
    good, stale, wrong, buried = (builders.admitted_and_claimed(jobs, builders.job(name)) for name in "abcd")
    backend.storage.dead_letters.append(builders.dead_letter("d", attempts=1))

    answers = jobs.record_many(
        [
            (good, SETTLED),
            (dataclasses.replace(stale, token="guess"), SETTLED),
            (wrong, Reschedule(attempt=9, delay_ms=0, publishes=True)),
            (buried, Bury(record=builders.dead_letter("d", attempts=2))),
            (stale, SETTLED),
        ]
    )

    kinds = [type(answer) for answer in answers]
    assert kinds == [type(None), StaleClaimError, InvalidInputError, DeadLetterConflictError, type(None)]
    assert (jobs.get("a"), jobs.get("b")) == (None, None)


def test_what_ended_twice_in_a_batch_is_recorded_once(backend: Backend) -> None:
    """The second outcome of a job in the same batch is stale, and the job is counted once."""
    jobs = backend.storage.jobs
    claim, other = (builders.admitted_and_claimed(jobs, builders.job(name)) for name in "ab")

    answers = jobs.record_many([(claim, SETTLED), (other, SETTLED), (claim, SETTLED)])

    assert [type(answer) for answer in answers] == [type(None), type(None), StaleClaimError]
    assert jobs.counts(JobKind.SETTLEMENT).finished[FinishedAs.SETTLED] == 2


def test_record_many_of_nothing_is_nothing(backend: Backend) -> None:
    """An empty batch has no answers."""
    assert backend.storage.jobs.record_many([]) == []


def test_one_of_many_recordings_counts(backend: Backend) -> None:
    """Of 16 threads that record one claim exactly one succeeds."""
    claim = builders.admitted_and_claimed(backend.storage.jobs)

    def record(_: int) -> bool:
        try:
            backend.storage.jobs.record(claim, SETTLED)
        except StaleClaimError:
            return False
        return True

    with ThreadPoolExecutor(16) as threads:
        outcomes = list(threads.map(record, range(16)))

    assert outcomes.count(True) == 1
    assert backend.storage.jobs.counts(JobKind.SETTLEMENT).finished[FinishedAs.SETTLED] == 1
