"""One thing is made while the one before it is used."""

import threading
from collections.abc import Iterator

import pytest

from tasks.overlap import overlapped

LIMIT_S = 10.0


def test_results_come_in_order() -> None:
    """Every item is used once; nothing comes of nothing."""
    assert list(overlapped(range(5), lambda number: number * 2)) == [0, 2, 4, 6, 8]
    assert list(overlapped([], str)) == []


def test_the_next_item_is_made_meanwhile() -> None:
    """The first is in use until the second is made: they wait for each other."""
    made = threading.Event()

    def items() -> Iterator[int]:
        yield 1
        made.set()
        yield 2

    def use(item: int) -> int:
        assert item != 1 or made.wait(LIMIT_S), "the next one was not made meanwhile"
        return item

    assert list(overlapped(items(), use)) == [1, 2]


def test_nothing_is_used_after_an_error() -> None:
    """What fails is told in its place, and what was made after it is not used."""
    used: list[int] = []

    def use(item: int) -> int:
        used.append(item)
        if item == 2:
            raise ValueError("no")
        return item

    results = overlapped(range(1, 5), use)

    assert next(results) == 1
    with pytest.raises(ValueError, match="no"):
        next(results)
    assert used == [1, 2]


def test_one_item_is_ahead_and_no_more() -> None:
    """A producer that is faster than the ledger keeps one batch in memory, not all."""
    made: list[int] = []

    def items() -> Iterator[int]:
        for number in range(10):
            made.append(number)
            yield number

    results = overlapped(items(), lambda number: number)

    assert next(results) == 0
    assert made == [0, 1]
