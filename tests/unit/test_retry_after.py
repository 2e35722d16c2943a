"""The Retry-After header in its four forms, the past, and garbage."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reliability.retry_after import parse_retry_after

#: A Sunday, as RFC 9110 writes it in its examples.
NOW = datetime(1994, 11, 6, 8, 49, 37, tzinfo=UTC)


@pytest.mark.parametrize(
    "value, wait_s",
    [
        ("0", 0),
        ("120", 120),
        (" 120\t", 120),
        ("000000120", 120),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0),
        ("Sun, 06 Nov 1994 08:51:37 GMT", 120),
        ("Sunday, 06-Nov-94 08:51:37 GMT", 120),
        ("Sun Nov  6 08:51:37 1994", 120),
        ("Sun Nov 06 08:51:37 1994", 120),
        ("Wed Nov 16 08:49:37 1994", 864_000),
        ("Sun, 06 Nov 1994 08:49:60 GMT", 22),
    ],
)
def test_each_form_is_read(value: str, wait_s: int) -> None:
    """Seconds, IMF-fixdate, RFC 850 and asctime dates give the wait from now."""
    assert parse_retry_after(value, NOW) == timedelta(seconds=wait_s)


@pytest.mark.parametrize(
    "value",
    [
        "Sun, 06 Nov 1994 08:49:36 GMT",
        "Saturday, 05-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:36 1994",
        "Thu, 01 Jan 1970 00:00:00 GMT",
    ],
)
def test_a_past_date_means_now(value: str) -> None:
    """A date that has passed asks for no wait."""
    assert parse_retry_after(value, NOW) == timedelta()


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        "soon",
        "-1",
        "+5",
        "1.5",
        "1e3",
        "12 s",
        "\N{FULLWIDTH DIGIT ONE}\N{FULLWIDTH DIGIT TWO}",
        "1700000000000",
        "9" * 5000,
        "Sun, 30 Feb 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 25:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:61 GMT",
        "Sun, 06 Nov 1994 08:49:37 PST",
        "Sun, 06 Nov 1994 08:49:37 +0000",
        "sun, 06 nov 1994 08:49:37 gmt",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "1994-11-06T08:49:37Z",
        "Sun, 06 Nov 0000 08:49:37 GMT",
        "120, 130",
        "120\n",
    ],
)
def test_garbage_is_ignored(value: str) -> None:
    """A header that is none of the forms asks for nothing."""
    assert parse_retry_after(value, NOW) is None


@pytest.mark.parametrize(
    "now_year, digits, year",
    [(1994, "94", 1994), (1994, "44", 2044), (1994, "45", 1945), (2099, "05", 2105), (2024, "99", 1999)],
)
def test_a_two_digit_year_is_at_most_50_years_ahead(now_year: int, digits: str, year: int) -> None:
    """A two-digit year means the nearest one that is not more than 50 years in the future."""
    now = datetime(now_year, 1, 1, tzinfo=UTC)

    wait = parse_retry_after(f"Monday, 01-Jan-{digits} 00:00:00 GMT", now)

    assert wait == max(datetime(year, 1, 1, tzinfo=UTC) - now, timedelta())


@given(st.text())
def test_no_text_raises(value: str) -> None:
    """Whatever a partner sends is read as a wait of no less than nothing, or ignored."""
    wait = parse_retry_after(value, NOW)

    assert wait is None or wait >= timedelta()
