"""What goes wrong in a batch costs the job it happens to, and nobody else."""

import dataclasses
from typing import Any

import pytest

from reliability import outcomes
from reliability.dead_letter import DeadLetterRecord
from reliability.errors import StorageUnavailableError
from reliability.failures import SettlementFailureCode, SettlementFailureReason
from storage.jobs import Finish, FinishedAs, JobState
from storage.keys import Key, Keys
from storage.options import LedgerOptions
from tests.support import backends
from tests.support.backends import Backend
from tests.support.batches import FINALIZED_AT, WRONG, Bench, Flaky, Hook, ManyHook, answering, names


def test_a_hook_that_ends_its_thread_costs_no_other_job(backend: Backend) -> None:
    """SystemExit in one hook: the others settle, its own lease runs out, and the batch tells."""
    bench = Bench(backend)

    batch = bench.run(Hook(answering(b=SystemExit(1))), bench.admit("a", "b", "c"))

    assert bench.settled() == 2
    assert bench.row("b").state is JobState.LEASED
    assert [type(error) for error in batch.failed] == [SystemExit]


def test_a_full_reconciliation_queue_holds_back_what_does_not_fit() -> None:
    """Two wait for receipts and one fits: the other comes again in a minute, with no attempt spent."""
    bench = Bench(backends.memory(LedgerOptions(reconciliation_capacity=1)))
    hook = Hook(answering(a=outcomes.Pending("t"), b=outcomes.Pending("t")))

    batch = bench.run(hook, bench.admit("a", "b"))

    assert batch.report.counts == {"pending": 1, "deferred": 1}
    assert [(wake.attempt, wake.delay_ms) for wake in bench.after.woken] == [(0, 60_000)]


def test_of_two_dead_letters_the_stored_one_stands(backend: Backend) -> None:
    """A receipt that has another dead letter already ends with that one; its neighbour with its own."""
    bench = Bench(backend)
    wanted = bench.admit("a", "b")
    reason = SettlementFailureReason.from_detail(SettlementFailureCode.BACKEND, "earlier")
    stored = DeadLetterRecord.new("a", FINALIZED_AT, 9, reason)
    bench.storage.dead_letters.append(stored)

    bench.run(Hook(answering(a=WRONG, b=WRONG)), wanted)

    assert bench.storage.dead_letters.get("a") == stored
    assert sorted(record.receipt_id for record in bench.after.buried) == ["a", "b"]
    assert bench.storage.jobs.get("a") is None


def flaky(backend: Backend, operation: str, failures: int) -> Bench:
    """Return a bench whose ledger fails so often at an operation."""
    bench = Bench(backend)
    ledger: Any = Flaky(bench.storage.jobs, operation, failures)
    bench.storage = dataclasses.replace(bench.storage, jobs=ledger)
    return bench


def test_an_unreachable_store_at_the_claim_leaves_everything_to_the_message(backend: Backend) -> None:
    """Nothing is assumed: no hook is asked and all attempts are left."""
    bench, hook = flaky(backend, "claim_many", 1), Hook()
    wanted = bench.admit("a", "b")
    batch = bench.of(hook, wanted)

    with pytest.raises(StorageUnavailableError):
        batch.run()

    assert (batch.left, hook.asked) == (wanted, [])


def test_outcomes_are_held_while_the_store_is_away(backend: Backend) -> None:
    """The store misses two tries to record: the third holds every outcome, and no hook is asked twice."""
    bench, hook = flaky(backend, "record_many", 2), Hook()

    bench.run(hook, bench.admit("a", "b"))

    assert bench.settled() == 2
    assert bench.pauses_s == [0.1, 0.3]
    assert sorted(hook.asked) == ["a", "b"]


def test_a_store_that_stays_away_ends_the_batch_and_keeps_what_was_not_claimed(backend: Backend) -> None:
    """After the last try the batch gives up its slice; the next slice was not begun and is left."""
    bench, hook = flaky(backend, "record_many", 6), Hook()
    batch = bench.of(hook, bench.admit(*names(20)))

    with pytest.raises(StorageUnavailableError):
        batch.run()

    assert [name for name, _ in batch.left] == names(20)[16:]
    assert bench.settled() == 0


@pytest.mark.server
def test_a_damaged_row_costs_no_other_job(redis_url: str, redis_server: Any) -> None:
    """A row without its payload is set aside; its neighbours settle."""
    bench = Bench(backends.on_redis(redis_url))
    wanted = bench.admit("a", "b", "c")
    with redis_server.client(int(redis_url.rpartition("/")[2])) as raw:
        raw.delete(Keys(backends.NAMESPACE).of(Key.PAYLOAD, "b"))

    bench.run(Hook(), wanted)

    assert bench.settled() == 2
    assert bench.after.aside == [("b", 0)]


def test_a_job_that_ended_meanwhile_is_dropped_and_the_others_are_recorded(backend: Backend) -> None:
    """While the hooks ran, a receipt ended one job: its outcome is dropped, its neighbour's is recorded."""
    bench = Bench(backend)
    wanted = bench.admit("a", "b")

    def confirm() -> object:
        version = bench.row("a").version
        assert bench.storage.jobs.conclude("a", version, Finish(finished_as=FinishedAs.SETTLED))
        return outcomes.Accepted()

    batch = bench.run(ManyHook({"b": confirm}), wanted)

    assert batch.report.counts == {"settled": 1}
    assert bench.settled() == 2
