"""Timers of attempts that have ended leave the main loop's memory."""

from itertools import islice
from types import SimpleNamespace

from kombu.asynchronous.timer import Timer

from worker.app import CONSUMER_STEPS
from worker.timer_sweep import SweepTimers, forget_cancelled


def _nothing() -> None:
    """Stand for what a timer calls."""


def test_cancelled_timers_are_forgotten() -> None:
    """Of a thousand attempts that ended nothing is left, although their limits are far away."""
    timer = Timer()
    ended = [timer.call_after(30.0, _nothing) for _ in range(1_000)]
    running = timer.call_after(30.0, _nothing)
    for attempt in ended:
        attempt.cancel()

    forget_cancelled(timer)

    assert [scheduled.entry for scheduled in timer.queue] == [running]


def test_the_rest_goes_off_in_order() -> None:
    """What is left goes off when it is due, the earliest first, also for who goes through the timer already."""
    timer = Timer()
    late, early, gone = (timer.call_at(instant, _nothing) for instant in (3.0, 2.0, 1.0))
    going = iter(timer)
    gone.cancel()

    forget_cancelled(timer)

    assert [entry for _, entry in islice(going, 2)] == [early, late]


def test_workers_sweep_with_every_connection() -> None:
    """A connected worker sweeps again and again, and stops when the connection ends."""
    timer, step = Timer(), SweepTimers(None)
    ended = timer.call_after(30.0, _nothing)
    ended.cancel()

    step.start(SimpleNamespace(timer=timer))
    sweep = next(scheduled.entry for scheduled in timer.queue if scheduled.entry is not ended)
    sweep()

    assert SweepTimers in CONSUMER_STEPS
    assert ended not in [scheduled.entry for scheduled in timer.queue]
    assert not sweep.canceled
    step.stop(None)
    assert sweep.canceled
