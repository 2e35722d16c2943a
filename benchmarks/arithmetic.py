"""Medians, percentiles, ratios and orders: pure, and tested, because every published figure is made of them."""

import math
import statistics
from collections.abc import Sequence
from typing import Final, TypeVar

Item = TypeVar("Item")

#: Digits that a published figure keeps: more would claim a precision that no run repeats.
_DIGITS: Final = 3
_PERCENT: Final = 100


def median(values: Sequence[float]) -> float:
    """Return the middle value, or the mean of the middle two."""
    return statistics.median(values)


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that at least `percent` of all are at or below (nearest rank)."""
    if not values:
        raise ValueError("expected at least one value, got none")
    if not 0 < percent <= _PERCENT:
        raise ValueError(f"expected a percentage above 0 and up to 100, got: {percent}")
    ordered = sorted(values)
    return ordered[math.ceil(len(ordered) * percent / _PERCENT) - 1]


def ratio(measured: float, reference: float) -> float:
    """Return how many times the reference was measured."""
    if reference <= 0:
        raise ValueError(f"expected a reference above 0, got: {reference}")
    return measured / reference


def rate_per_s(count: int, elapsed_s: float) -> float:
    """Return how many there were in a second."""
    if elapsed_s <= 0:
        raise ValueError(f"expected some time to have passed, got: {elapsed_s} s")
    return count / elapsed_s


def per_thousand(amount: float, count: int) -> float:
    """Return what a thousand cost where `count` cost `amount`."""
    if count <= 0:
        raise ValueError(f"expected at least one, got: {count}")
    return amount * 1_000 / count


def shown(value: float) -> float:
    """Return the value with the digits that are published."""
    if not value or not math.isfinite(value):
        return value
    decimals = _DIGITS - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, max(decimals, 0))
    return int(rounded) if decimals <= 0 else rounded


def alternating(items: Sequence[Item], rounds: int) -> list[list[Item]]:
    """
    Return the order of each round: forwards, backwards, forwards, ...

    What a machine does in the meantime (its heat, its neighbours) then meets all items alike.
    """
    return [list(items) if number % 2 == 0 else list(reversed(items)) for number in range(rounds)]
