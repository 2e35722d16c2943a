"""
The Retry-After header in each of its forms: seconds, IMF-fixdate, RFC 850 and asctime.

A date in the past means now. Anything else is garbage and ignored, since a partner's broken header must not decide
when we send. Delivery and settlement hooks call it; `delivery.plan_retry` bounds what it returns.
"""

import re
from datetime import UTC, datetime, timedelta

#: More than nine digits is no wait anybody means but an epoch time in the wrong header: garbage.
_SECONDS = re.compile(r"[0-9]{1,9}", re.ASCII)
_CLOCK = r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
_MONTH = r"(?P<month>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
# strptime would read names in the process's own locale, so the three forms are spelled out.
_DATES = (
    re.compile(rf"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), (?P<day>[0-9]{{2}}) {_MONTH} (?P<year>[0-9]{{4}}) {_CLOCK} GMT"),
    re.compile(
        rf"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, (?P<day>[0-9]{{2}})-{_MONTH}-(?P<year>[0-9]{{2}}) {_CLOCK} GMT"
    ),
    re.compile(rf"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) {_MONTH} (?P<day>[0-9 ][0-9]) {_CLOCK} (?P<year>[0-9]{{4}})"),
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_TWO_DIGITS = 2
_LEAP_SECOND = 60
#: RFC 9110 s5.6.7: a two-digit year that looks more than 50 years ahead is the past one with the same digits.
_LONGEST_AHEAD_YEARS = 50


def parse_retry_after(value: str, now: datetime) -> timedelta | None:
    """Return the wait the header asks for, zero for a past date, None for garbage."""
    text = value.strip(" \t")
    if _SECONDS.fullmatch(text):
        return timedelta(seconds=int(text))
    found = next((match for form in _DATES if (match := form.fullmatch(text))), None)
    instant = _instant(found, now) if found else None
    return max(instant - now, timedelta()) if instant else None


def _instant(found: re.Match[str], now: datetime) -> datetime | None:
    second = int(found["second"])
    try:
        return datetime(
            _full_year(found["year"], now),
            _MONTHS.index(found["month"]) + 1,
            int(found["day"]),
            int(found["hour"]),
            int(found["minute"]),
            min(second, _LEAP_SECOND - 1) if second <= _LEAP_SECOND else second,
            tzinfo=UTC,
        )
    except ValueError:
        return None  # 30 February, or hour 25: garbage


def _full_year(digits: str, now: datetime) -> int:
    if len(digits) > _TWO_DIGITS:
        return int(digits)
    years_ahead = (int(digits) - now.year) % 100
    return now.year + (years_ahead if years_ahead <= _LONGEST_AHEAD_YEARS else years_ahead - 100)
