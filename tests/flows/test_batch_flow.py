"""The story of one batch message, told without Celery, on every back end."""

from collections.abc import Callable
from typing import Any

import pytest

from reliability import outcomes
from storage.jobs import FinishedAs, JobKind, JobState, Lease
from tasks.packing import Wake
from tests.support.backends import Backend
from tests.support.batches import BUSY, WRONG, AsyncHook, Bench, Hook, ManyHook, answering, job, names

every_way = pytest.mark.parametrize("make", [Hook, ManyHook, AsyncHook], ids=["threads", "one call", "loop"])


@every_way
@pytest.mark.parametrize("count", [1, 2, 16, 150])
def test_every_job_of_a_batch_settles(backend: Backend, make: Callable[[], Hook], count: int) -> None:
    """Each job is claimed, its hook asked once, its outcome recorded; nothing follows."""
    bench, hook = Bench(backend), make()
    wanted = bench.admit(*names(count))

    batch = bench.run(hook, wanted)

    assert bench.settled() == count
    assert sorted(hook.asked) == names(count)
    assert batch.report.counts == {"settled": count}
    assert (batch.left, bench.after.woken, bench.after.shared, bench.after.buried) == ([], [], [], [])


@every_way
def test_each_job_ends_on_its_own(backend: Backend, make: Callable[..., Hook]) -> None:
    """One is settled, one retried, one dead, one awaits its receipt, one raised; none costs another anything."""
    bench = Bench(backend)
    hook = make(
        answering(
            busy=BUSY,
            wrong=WRONG,
            pending=outcomes.Pending("t"),
            broken=RuntimeError("secret"),
            foreign="yes",
        )
    )
    wanted = bench.admit("fine", "busy", "wrong", "pending", "broken", "foreign")

    batch = bench.run(hook, wanted)

    counts = bench.storage.jobs.counts(JobKind.SETTLEMENT)
    assert counts.finished[FinishedAs.SETTLED] == 1
    assert {name: bench.row(name).attempt for name in ("busy", "broken")} == {"busy": 1, "broken": 1}
    assert bench.row("pending").state is JobState.AWAITING
    assert sorted(record.receipt_id for record in bench.after.buried) == ["foreign", "wrong"]
    assert bench.storage.dead_letters.count() == 2
    assert sorted(bench.after.woken, key=lambda wake: wake.job_id) == [Wake("broken", 1, 100), Wake("busy", 1, 100)]
    assert batch.report.counts == {"settled": 1, "retried": 2, "dead_lettered": 2, "pending": 1}


@pytest.mark.parametrize("count", [10, 90])
def test_jobs_run_in_the_order_of_their_finalisation(backend: Backend, count: int) -> None:
    """Whatever the order of the message, hooks are asked in that of (finalized_at, receipt id), over all slices."""
    bench, hook = Bench(backend, concurrency=1), Hook()
    wanted = bench.admit(*names(count))

    bench.run(hook, wanted[::-1])

    assert hook.asked == names(count)


def test_an_order_that_the_message_tells_is_not_looked_up(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer that packed in order saves its workers the question; slices are begun as the pairs stand."""
    bench, hook = Bench(backend, concurrency=1), Hook()
    batch = bench.of(hook, bench.admit(*names(90)))
    batch.ordered = True
    monkeypatch.setattr(bench.storage.jobs, "finalized_at_many", None)

    batch.run()

    assert hook.asked == names(90)


def test_jobs_of_one_instant_run_in_the_order_of_their_ids_bytes(backend: Backend) -> None:
    """Ids are compared as bytes, capitals before small letters."""
    bench, hook = Bench(backend, concurrency=1), Hook()
    bench.storage.jobs.admit_many([job(name) for name in ("b", "a", "B", "a0")])

    bench.run(hook, [("b", 0), ("a", 0), ("B", 0), ("a0", 0)])

    assert hook.asked == ["B", "a", "a0", "b"]


def test_a_hook_that_takes_many_is_called_once_a_slice(backend: Backend) -> None:
    """The observations of a slice come with one call, in order; later slices are larger."""
    bench, hook = Bench(backend), ManyHook()

    bench.run(hook, bench.admit(*names(150)))

    assert hook.calls == [16, 32, 64, 38]
    assert hook.asked == names(150)


@pytest.mark.parametrize(
    "many",
    [
        pytest.param(lambda _: [outcomes.Accepted()], id="too few answers"),
        pytest.param(lambda found: [outcomes.Accepted()] * (len(found) + 1), id="too many answers"),
        pytest.param(lambda _: None, id="no list"),
        pytest.param(lambda _: 1 / 0, id="an exception"),
    ],
)
def test_a_call_for_many_that_breaks_the_contract_is_a_failed_attempt_of_each(
    backend: Backend, many: Callable[[object], Any]
) -> None:
    """Nobody can tell whose answer is missing, so all are retried, code backend, under the same ids."""
    bench = Bench(backend)

    batch = bench.run(ManyHook(many=many), bench.admit("a", "b", "c"))

    assert batch.report.counts == {"retried": 3}
    assert bench.after.woken == [Wake("a", 1, 100), Wake("b", 1, 100), Wake("c", 1, 100)]


def test_a_delay_past_one_hop_is_left_to_the_pump(backend: Backend) -> None:
    """A rail that asks for a long wait parks the job: no message is sent for it."""
    bench = Bench(backend)
    patient = outcomes.Retryable(BUSY.reason, retry_after_ms=90_000)

    bench.run(Hook(answering(a=patient)), bench.admit("a", "b"))

    assert bench.after.woken == []
    assert bench.row("a").state is JobState.PARKED


@every_way
def test_a_batch_that_comes_again_repeats_nothing(backend: Backend, make: Callable[..., Hook]) -> None:
    """A second copy of the message finds every attempt made: no hook is asked, nothing is sent."""
    bench, hook = Bench(backend), make(answering(busy=BUSY))
    wanted = bench.admit("fine", "busy")
    bench.run(hook, wanted)
    woken = list(bench.after.woken)

    again = bench.run(hook, wanted)

    assert sorted(hook.asked) == ["busy", "fine"]
    assert again.report.counts == {"stale": 2}
    assert bench.after.woken == woken


def test_a_job_named_twice_is_asked_about_once(backend: Backend) -> None:
    """The second pair of the same attempt finds it taken."""
    bench, hook = Bench(backend), Hook()
    wanted = bench.admit("a", "b")

    bench.run(hook, [*wanted, *wanted])

    assert sorted(hook.asked) == ["a", "b"]


def test_an_attempt_that_comes_early_is_woken_again_in_time(backend: Backend) -> None:
    """A retry whose message was too quick is scheduled for the time that remains."""
    bench, hook = Bench(backend), Hook(answering(a=outcomes.Retryable(BUSY.reason, retry_after_ms=30_000)))
    bench.run(hook, bench.admit("a"))
    bench.after.woken.clear()

    batch = bench.run(hook, [("a", 1)])

    (wake,) = bench.after.woken
    assert (wake.job_id, wake.attempt) == ("a", 1)
    assert 0 < wake.delay_ms <= 30_000
    assert batch.report.counts == {"early": 1}


def test_the_leases_of_all_claims_are_kept(backend: Backend) -> None:
    """Whatever is claimed is given to the keeper for as long as its hooks run."""
    bench = Bench(backend)

    bench.run(Hook(), bench.admit(*names(40)))

    assert bench.keeper.kept == names(40)


def test_an_expired_lease_in_a_batch_counts_as_one_failed_attempt(backend: Backend) -> None:
    """The hook is not asked for it; the other job of the batch settles."""
    bench, hook = Bench(backend), Hook()
    wanted = bench.admit("a", "b")
    bench.storage.jobs.claim("a", 0, Lease(owner="gone", token="t", lease_ms=1_000))
    backend.travel(2_000)

    bench.run(hook, wanted)

    assert hook.asked == ["b"]
    assert bench.row("a").attempt == 1
    assert bench.after.woken == [Wake("a", 1, 100, alone=True)]


class VerifyingManyHook(ManyHook):
    """Answer a status check too."""

    def verify(self, observation: Any) -> outcomes.SettlementResult:
        """Say that it was settled."""
        self.asked.append(f"verify {observation.receipt_id}")
        return outcomes.Accepted()


def test_escalated_jobs_are_verified_beside_the_others(backend: Backend) -> None:
    """A hook that takes many is asked about an escalated job by its status check, not with the others."""
    bench, hook = Bench(backend), VerifyingManyHook(answering(late=outcomes.Pending("t")))
    wanted = bench.admit("late", "fresh")
    bench.run(hook, wanted[:1])
    (entry,) = bench.storage.reconciliation.queued_requests()
    bench.storage.reconciliation.resolve(entry.idempotency_key)
    hook.asked.clear()

    bench.run(hook, wanted)

    assert sorted(hook.asked) == ["fresh", "verify late"]
    assert bench.settled() == 2
