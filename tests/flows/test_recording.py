"""How outcomes get into the ledger: single ones and many, held while the store is away, changed where they must be."""

import dataclasses
from typing import Any

import pytest

from reliability.errors import InvalidInputError, StorageUnavailableError
from storage.jobs import Claim, FinishedAs
from tasks import recording, steps
from tasks.recording import RECORD_PAUSES_S, Outcome
from tests.support import backends, builders
from tests.support.backends import Backend
from tests.support.batches import Bench, Flaky

SETTLED = steps.Done(finished_as=FinishedAs.SETTLED)


def claimed(bench: Bench, *receipts: str) -> list[Claim]:
    """Admit and claim settlements."""
    return [builders.claimed(bench.storage.jobs, job_id) for job_id, _ in bench.admit(*receipts)]


@pytest.mark.parametrize("count", [1, 3])
def test_what_is_recorded_is_returned(backend: Backend, count: int) -> None:
    """One outcome and several end the same way."""
    bench = Bench(backend)
    wanted = [Outcome(claim, SETTLED) for claim in claimed(bench, *"abc"[:count])]

    recorded = bench.parts.recorder.record(wanted)

    assert recorded == wanted
    assert bench.settled() == count


def test_a_lost_claim_is_left_out(backend: Backend) -> None:
    """A claim that was recorded before holds no more; its neighbour is recorded."""
    bench = Bench(backend)
    first, second = claimed(bench, "a", "b")
    bench.parts.recorder.record([Outcome(first, SETTLED)])

    recorded = bench.parts.recorder.record([Outcome(first, SETTLED), Outcome(second, SETTLED)])

    assert [outcome.claim for outcome in recorded] == [second]


@pytest.mark.parametrize("operation, count", [("record", 1), ("record_many", 2)])
def test_outcomes_are_held_until_the_store_is_back(backend: Backend, operation: str, count: int) -> None:
    """Each try waits longer; the one that is answered records."""
    bench = Bench(backend)
    wanted = [Outcome(claim, SETTLED) for claim in claimed(bench, *"ab"[:count])]
    flaky: Any = Flaky(bench.storage.jobs, operation, 3)
    bench.storage = dataclasses.replace(bench.storage, jobs=flaky)

    bench.parts.recorder.record(wanted)

    assert bench.settled() == count
    assert bench.pauses_s == list(RECORD_PAUSES_S[:3])


@pytest.mark.parametrize("operation, count", [("record", 1), ("record_many", 2)])
def test_a_store_that_stays_away_is_given_up(backend: Backend, operation: str, count: int) -> None:
    """After the last pause and one more try the outcomes are lost with their leases."""
    bench = Bench(backend)
    wanted = [Outcome(claim, SETTLED) for claim in claimed(bench, *"ab"[:count])]
    flaky: Any = Flaky(bench.storage.jobs, operation, len(RECORD_PAUSES_S) + 1)
    bench.storage = dataclasses.replace(bench.storage, jobs=flaky)

    with pytest.raises(StorageUnavailableError):
        bench.parts.recorder.record(wanted)

    assert bench.pauses_s == list(RECORD_PAUSES_S)


def test_one_refused_write_of_many_is_tried_again(backend: Backend) -> None:
    """The store takes all but one of an exchange: that one is held and recorded next."""
    bench = Bench(backend)
    wanted = [Outcome(claim, SETTLED) for claim in claimed(bench, "a", "b")]
    partial: Any = _RefusingOne(bench.storage.jobs)
    bench.storage = dataclasses.replace(bench.storage, jobs=partial)

    recorded = bench.parts.recorder.record(wanted)

    assert sorted(outcome.claim.job_id for outcome in recorded) == ["a", "b"]
    assert bench.settled() == 2
    assert bench.pauses_s == [RECORD_PAUSES_S[0]]


class _RefusingOne:
    """Refuse the first outcome of the first exchange, as a full server does."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._has_refused = False

    def __getattr__(self, name: str) -> Any:
        """Return the operation of the ledger."""
        return getattr(self._inner, name)

    def record_many(self, wanted: Any) -> list[Exception | None]:
        """Record all but one."""
        if self._has_refused:
            return self._inner.record_many(wanted)  # type: ignore[no-any-return]  # whatever the ledger returns
        self._has_refused = True
        return [StorageUnavailableError("record", "a"), *self._inner.record_many(wanted[1:])]


def test_a_step_that_leads_nowhere_is_a_fault_of_ours(backend: Backend) -> None:
    """An attempt number that no attempt leads to is refused, loudly."""
    bench = Bench(backend)
    (claim,) = claimed(bench, "a")

    with pytest.raises(InvalidInputError):
        bench.parts.recorder.record([Outcome(claim, steps.Defer(attempt=7, delay_ms=0, why="test"))])


def test_a_retry_that_finds_the_queue_full_goes_without_its_entry() -> None:
    """The attempt is spent and the next one scheduled; only the entry is missing."""
    claim = builders.admitted_and_claimed(backends.memory().storage.jobs, builders.delivery_job())
    step = steps.RetryAfter(
        attempt=1, delay_ms=5, reason=builders.reason(), max_retries=2, pending=builders.indeterminate()
    )

    assert recording.without_entry(claim, step) == dataclasses.replace(step, pending=None)
