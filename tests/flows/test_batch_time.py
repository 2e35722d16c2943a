"""A batch and its time: what does not fit is given back, slow hooks hold nothing up, time limits lose nothing."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from reliability import outcomes
from reliability.settlement import SettlementObservation
from storage.jobs import JobKind, Lease
from tasks.packing import Wake
from tests.support import batches
from tests.support.backends import Backend
from tests.support.batches import BOX_MS, AsyncHook, Bench, Gate, Hook, InterruptedHere, ManyHook, names
from tests.support.worker_process import poll

LIMIT_S = 20.0


def taking(bench: Bench, ms: int) -> Callable[[], object]:
    """Return an answer that takes so long."""

    def answer() -> object:
        bench.ticks.advance(ms)
        return outcomes.Accepted()

    return answer


def test_what_cannot_begin_in_time_is_given_back(backend: Backend) -> None:
    """When the time is up, jobs that were claimed are due again with no attempt spent; the rest was never claimed."""
    bench = Bench(backend)
    hook = ManyHook({name: taking(bench, BOX_MS // 10) for name in names(100)})

    batch = bench.run(hook, bench.admit(*names(100)))

    asked = len(hook.asked)
    assert hook.asked == names(100)[:asked]
    assert 0 < asked < 100
    assert [name for name, _ in batch.left] == names(100)[asked:]
    assert all(bench.row(name).attempt == 0 for name in names(100)[asked:])


class SlowToVerify(Hook):
    """Take all the time there is for a status check, until the others are given back."""

    def __init__(self, bench: Bench, others: int) -> None:
        super().__init__()
        self._bench, self._others = bench, others

    def verify(self, observation: SettlementObservation) -> outcomes.SettlementResult:
        """Say that it was settled."""
        self._bench.ticks.advance(BOX_MS)
        poll(lambda: len(self._bench.after.woken) == self._others, LIMIT_S, "the others to be given back")
        return outcomes.Accepted(f"verified {observation.receipt_id}")


def test_attempts_in_which_a_worker_died_stay_such_when_they_are_given_back(backend: Backend) -> None:
    """Claimed again each counts as the failed attempt it is: its hook may have acted and is not asked again."""
    bench = Bench(backend, concurrency=1)
    late, *died = bench.admit("late", "died-1", "died-2")
    bench.run(Hook(batches.answering(late=outcomes.Pending("t"))), [late])
    (entry,) = bench.storage.reconciliation.queued_requests()
    bench.storage.reconciliation.resolve(entry.idempotency_key)
    bench.storage.jobs.claim_many(died, Lease(owner="gone", token="t", lease_ms=1_000))
    backend.travel(2_000)
    bench.after.woken.clear()

    first = bench.run(SlowToVerify(bench, len(died)), [late, *died])
    later = Hook()
    again = [bench.run(later, [pair]) for pair in died]

    assert first.report.counts == {"settled": 1, "deferred": 2}
    assert [batch.report.counts for batch in again] == [{"retried": 1}, {"retried": 1}]
    assert (later.asked, [bench.row(name).attempt for name, _ in died]) == ([], [1, 1])


def test_claimed_jobs_that_did_not_begin_in_time_spend_no_attempt(backend: Backend) -> None:
    """The threads of a slice are slower than believed: what waits for one is given back and woken at once."""
    bench = Bench(backend, concurrency=1)
    bench.batch.paces[JobKind.SETTLEMENT].took(10, 1)
    wanted = bench.admit(*names(10))

    def slow() -> object:
        bench.ticks.advance(BOX_MS)
        poll(lambda: len(bench.after.woken) == 9, LIMIT_S, "the others to be given back")
        return outcomes.Accepted()

    batch = bench.run(Hook({names(1)[0]: slow}), wanted)

    assert batch.report.counts == {"settled": 1, "deferred": 9}
    assert bench.batch.paces[JobKind.SETTLEMENT].size == 1
    assert sorted(bench.after.woken, key=lambda wake: wake.job_id) == [Wake(name, 0, 0) for name in names(10)[1:]]
    assert all(bench.row(name).attempt == 0 for name in names(10)[1:])


def test_what_would_take_too_long_is_shared_at_once(backend: Backend) -> None:
    """A process that knows its hook to be slow keeps what fits its time, the soonest, and gives away the rest first."""
    bench, hook = Bench(backend, concurrency=1), Hook()
    bench.batch.paces[JobKind.SETTLEMENT].took(1, 500)
    wanted = bench.admit(*names(30))

    batch = bench.run(hook, wanted[::-1])

    assert hook.asked == names(30)[:10]
    assert [[name for name, _ in shared] for shared in bench.after.shared] == [names(30)[10:]]
    assert batch.report.counts == {"settled": 10, "given_back": 20}


def test_a_broker_that_takes_nothing_leaves_the_rest_with_the_batch(backend: Backend) -> None:
    """What could not be shared stays in the batch's own message."""
    bench, hook = Bench(backend, concurrency=1), Hook()
    bench.after.broker_is_up = False
    bench.batch.paces[JobKind.SETTLEMENT].took(1, 500)

    batch = bench.run(hook, bench.admit(*names(30)))

    assert (bench.settled(), batch.left) == (30, [])


def test_outcomes_are_recorded_while_a_slow_hook_runs(backend: Backend) -> None:
    """One hook takes long: what the others came to is in the ledger before it ends."""
    bench, gate = Bench(backend), Gate()
    bench.monotonic_ms = batches.monotonic_ms
    batch = bench.of(Hook({"a": gate.hook("a")}), bench.admit("a", "b", "c"))
    running = threading.Thread(target=batch.run)

    running.start()
    try:
        gate.wait_until_reached("a")
        poll(lambda: bench.settled() == 2, LIMIT_S, "the other two to be recorded")
    finally:
        gate.open()
        running.join(LIMIT_S)

    assert not running.is_alive()


def test_slow_hooks_run_several_at_a_time(backend: Backend) -> None:
    """Hooks that block get a thread each, up to the bound."""
    bench, gate = Bench(backend, concurrency=3), Gate()
    batch = bench.of(Hook({name: gate.hook(name) for name in "abcd"}), bench.admit(*"abcd"))
    running = threading.Thread(target=batch.run)

    running.start()
    try:
        for name in "abc":
            gate.wait_until_reached(name)
        fourth_waits = not gate.reached["d"].is_set()
    finally:
        gate.open()
        running.join(LIMIT_S)

    assert fourth_waits
    assert batch.report.counts.total() == 4


class InterruptingClock:
    """Tell the time, and raise once when told to, as a time limit does in the task's own thread."""

    def __init__(self, when: Callable[[], bool]) -> None:
        self._when = when
        self._has_struck = False

    def __call__(self) -> int:
        """Return the time that really passes."""
        if not self._has_struck and self._when():
            self._has_struck = True
            raise InterruptedHere
        return batches.monotonic_ms()


def test_a_time_limit_lets_running_hooks_end_and_begins_nothing_more(backend: Backend) -> None:
    """What runs is recorded when it ends; what waits for a thread is given back; what was not claimed stays."""
    bench, gate = Bench(backend, concurrency=2), Gate()
    bench.batch.paces[JobKind.SETTLEMENT].took(16, 1)
    wanted = bench.admit(*names(60))
    hook = Hook({name: gate.hook(name) for name in names(60)[:2]})
    bench.monotonic_ms = InterruptingClock(lambda: all(gate.reached[name].is_set() for name in names(60)[:2]))
    batch = bench.of(hook, wanted)
    running = threading.Thread(target=batch.run)

    running.start()
    try:
        poll(lambda: len(bench.after.woken) == 30, LIMIT_S, "the waiting ones to be given back")
    finally:
        gate.open()
        running.join(LIMIT_S)

    assert sorted(hook.asked) == names(60)[:2]
    assert bench.row(names(60)[2]).attempt == 0
    assert [name for name, _ in batch.left] == names(60)[32:]


class HangingHook(AsyncHook):
    """Never answer on the loop."""

    async def observe_async(self, observation: Any) -> outcomes.SettlementResult:
        """Wait for something that does not come."""
        self.asked.append(observation.receipt_id)
        await asyncio.Event().wait()
        raise AssertionError("unreachable")


def test_a_time_limit_puts_nothing_more_on_the_loop(backend: Backend) -> None:
    """What waits for a place on the loop is given back with no attempt spent."""
    bench, hook = Bench(backend, concurrency=2), HangingHook()
    bench.monotonic_ms = InterruptingClock(lambda: len(hook.asked) == 2)

    batch = bench.run(hook, bench.admit("a", "b", "c", "d"))

    assert hook.asked == ["a", "b"]
    assert batch.report.counts == {"retried": 2, "deferred": 2}


def test_a_time_limit_cancels_what_is_on_the_loop(backend: Backend) -> None:
    """What was on its way counts as a failed attempt, and the batch ends."""
    bench, hook = Bench(backend), HangingHook()
    bench.monotonic_ms = InterruptingClock(lambda: len(hook.asked) == 3)

    batch = bench.run(hook, bench.admit("a", "b", "c"))

    assert batch.report.counts == {"retried": 3}
