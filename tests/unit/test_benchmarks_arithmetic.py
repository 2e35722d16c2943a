"""The benchmarks' arithmetic: every published figure is made of it."""

import pytest

from benchmarks import arithmetic


@pytest.mark.parametrize(
    "values, middle", [([3.0], 3.0), ([5.0, 1.0, 3.0], 3.0), ([1.0, 2.0, 10.0, 3.0], 2.5)], ids=["one", "odd", "even"]
)
def test_median_is_the_middle(values: list[float], middle: float) -> None:
    """The median is the middle value, or the mean of the middle two."""
    found = arithmetic.median(values)

    assert found == middle


@pytest.mark.parametrize(
    "percent, value", [(1, 1.0), (50, 50.0), (95, 95.0), (99, 99.0), (100, 100.0)], ids=lambda given: f"{given}"
)
def test_percentile_is_the_nearest_rank(percent: float, value: float) -> None:
    """Of the numbers 1 to 100 in any order, the p-th percentile is p."""
    numbers = [float(number) for number in range(100, 0, -1)]

    found = arithmetic.percentile(numbers, percent)

    assert found == value


def test_percentile_of_few_values_is_one_of_them() -> None:
    """The 99th percentile of three values is the largest, never a number that was not measured."""
    found = arithmetic.percentile([4.0, 9.0, 1.0], 99)

    assert found == 9.0


@pytest.mark.parametrize("percent", [0, -1, 101])
def test_percentage_out_of_range_is_refused(percent: float) -> None:
    """A percentage that is none is refused with its value."""
    with pytest.raises(ValueError, match=f"got: {percent}"):
        arithmetic.percentile([1.0], percent)


def test_percentile_of_nothing_is_refused() -> None:
    """Without a value there is no percentile."""
    with pytest.raises(ValueError, match="at least one value"):
        arithmetic.percentile([], 50)


def test_rates_ratios_and_costs() -> None:
    """A rate is a count over its time, a ratio has its reference below, a cost is that of a thousand."""
    found = (arithmetic.rate_per_s(500, 0.25), arithmetic.ratio(3.0, 1.5), arithmetic.per_thousand(6.0, 4_000))

    assert found == (2_000.0, 2.0, 1.5)


def test_division_by_nothing_is_refused() -> None:
    """A run that took no time, a reference of nothing and a cost of no job are mistakes, not figures."""
    with pytest.raises(ValueError, match="some time"):
        arithmetic.rate_per_s(1, 0)
    with pytest.raises(ValueError, match="reference above 0"):
        arithmetic.ratio(1, 0)
    with pytest.raises(ValueError, match="at least one"):
        arithmetic.per_thousand(1, 0)


@pytest.mark.parametrize(
    "value, published",
    [(0.0, 0.0), (0.001234, 0.00123), (1.2345, 1.23), (98.76, 98.8), (123.4, 123), (12_345.6, 12_346), (-2.345, -2.35)],
)
def test_published_digits(value: float, published: float) -> None:
    """Three digits are published; what stands before the point is never rounded away."""
    found = arithmetic.shown(value)

    assert found == pytest.approx(published, abs=0.011 if value < 0 else 1e-9)


def test_orders_alternate() -> None:
    """Every second round runs backwards, so that each item is as often early as late."""
    found = arithmetic.alternating("abc", 3)

    assert found == [["a", "b", "c"], ["c", "b", "a"], ["a", "b", "c"]]
