"""How many jobs a slice holds: learnt from how long the ones before took."""

import pytest

from tasks import batch_runtime, pace
from tasks.pace import Pace


def test_nothing_is_believed_before_the_first_slice() -> None:
    """The first slice is small, and nobody says what fits a time."""
    fresh = Pace()

    assert (fresh.size, fresh.within(1_000)) == (16, None)


def test_a_fast_hook_gets_larger_slices_step_by_step() -> None:
    """Each slice at most doubles, up to the most."""
    fast = Pace()
    sizes = []
    for _ in range(5):
        fast.took(fast.size, 1)
        sizes.append(fast.size)

    assert sizes == [32, 64, 128, 128, 128]


def test_a_slow_hook_gets_what_a_second_holds() -> None:
    """Jobs of 100 ms come ten a slice, and a time of five seconds holds fifty."""
    slow = Pace()
    slow.took(16, 1_600)

    assert (slow.size, slow.within(5_000)) == (10, 50)


def test_a_slice_holds_at_least_what_runs_at_once() -> None:
    """Hooks that take minutes still begin together, as many as there are threads, and one always."""
    threads, one = Pace(least=8), Pace()
    threads.took(8, 600_000)
    one.took(1, 600_000)

    assert (threads.size, threads.within(1), one.size, one.within(1)) == (8, 8, 1, 1)


def test_a_hook_that_recovers_is_believed_again() -> None:
    """One slow slice is forgotten after a few quick ones."""
    moody = Pace()
    moody.took(10, 10_000)
    for _ in range(12):
        moody.took(moody.size, 1)

    assert moody.size == pace.MOST


def test_a_clock_that_stands_is_no_division_by_zero() -> None:
    """A slice that took no time at all is simply fast."""
    quick = Pace()

    quick.took(16, 0)

    assert quick.size == 32


@pytest.mark.parametrize(
    "lease_ms, soft_limit_s, hard_limit_s, expected_ms",
    [(15_000, 30, 45, 5_000), (120_000, 30, 45, 7_500), (15_000, 44, 45, 500), (2_000, 3, 4, 500)],
)
def test_a_batch_begins_nothing_so_late_that_it_could_not_end(
    lease_ms: int, soft_limit_s: int, hard_limit_s: int, expected_ms: int
) -> None:
    """Its time is a third of a lease, and no more than half of what lies between the two limits."""
    assert batch_runtime.box_ms(lease_ms, soft_limit_s, hard_limit_s) == expected_ms
