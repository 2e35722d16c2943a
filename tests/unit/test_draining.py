"""What a worker that was told to end does next."""

import os
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from worker.draining import INTERRUPTION_S, Drain, Phase, Surroundings, next_phase

TIMEOUT_S = 25.0


@pytest.mark.parametrize(
    "running,waited_s,interrupted,phase",
    [
        (0, 0.0, False, Phase.END),
        (0, 99.0, True, Phase.END),
        (2, 0.0, False, Phase.WAIT),
        (2, TIMEOUT_S - 0.1, False, Phase.WAIT),
        (2, TIMEOUT_S, False, Phase.INTERRUPT),
        (2, TIMEOUT_S + 0.1, True, Phase.WAIT),
        (2, TIMEOUT_S + INTERRUPTION_S, True, Phase.ABANDON),
    ],
)
def test_phases(running: int, waited_s: float, interrupted: bool, phase: Phase) -> None:
    """A worker waits for running attempts, then interrupts them, then leaves them; without any it ends."""
    assert next_phase(running, waited_s, TIMEOUT_S, interrupted=interrupted) is phase


class Bench:
    """Hold a drain and note what it does."""

    def __init__(self, running: Iterable[Any]) -> None:
        self.now_s = 100.0
        self.running = list(running)
        self.done: list[str] = []
        self.drain = Drain(TIMEOUT_S, lambda: self.now_s)

    def look(self, after_s: float = 0.0) -> None:
        """Let time pass and the main loop look."""
        self.now_s += after_s
        self.drain.look(
            Surroundings(
                stop_consuming=lambda: self.done.append("stop"),
                running=lambda: self.running,
                end=lambda: self.done.append("end"),
                abandon=lambda: self.done.append("abandon"),
            )
        )


def test_nothing_happens_before_the_signal() -> None:
    """A worker nobody told to end goes on."""
    bench = Bench([])

    bench.look()

    assert bench.done == []


def test_an_idle_worker_ends_at_once() -> None:
    """Without running attempts the first look stops consuming and ends."""
    bench = Bench([])
    bench.drain.begin()

    bench.look()

    assert bench.done == ["stop", "end"]


def test_a_busy_worker_ends_when_its_attempts_have() -> None:
    """The worker takes nothing more, and ends as soon as nothing runs, not at the timeout."""
    bench = Bench([SimpleNamespace(worker_pid=None)])
    bench.drain.begin()
    bench.look()
    bench.look(after_s=1.0)
    bench.running.clear()

    bench.look(after_s=1.0)

    assert bench.done == ["stop", "end"]


def test_attempts_that_cannot_be_interrupted_are_left() -> None:
    """At the timeout an attempt in a thread, or one whose process is gone, is left to its lease."""
    gone = SimpleNamespace(worker_pid=2**22 + 1)
    bench = Bench([gone, SimpleNamespace(worker_pid=os.getpid()), SimpleNamespace(worker_pid=None)])
    bench.drain.begin()
    bench.look()
    bench.look(after_s=TIMEOUT_S)

    bench.look(after_s=INTERRUPTION_S)

    assert bench.done == ["stop", "abandon"]


def test_a_second_signal_does_not_restart_the_clock() -> None:
    """Being told again does not prolong the grace."""
    bench = Bench([SimpleNamespace(worker_pid=None)])
    bench.drain.begin()
    bench.look(after_s=TIMEOUT_S)
    bench.drain.begin()

    bench.look(after_s=INTERRUPTION_S)

    assert bench.done[-1] == "abandon"
