"""The numbers of the stores, and what is kept in a dedup mark."""

from dataclasses import fields
from datetime import UTC, datetime

import pytest

from reliability.errors import InvalidInputError
from storage import dedup_mark
from storage.instants import micros_of
from storage.jobs import FinishedAs
from storage.memory_marks import ExpiringMarks
from storage.options import LedgerOptions
from tests.support import builders


def test_defaults_are_the_documented_ones() -> None:
    """The dedup window is 48 h, the slack 2 s, and admission does not wait for the disk."""
    options = LedgerOptions()

    assert (options.dedup_ttl_s, options.lost_message_slack_ms, options.waitaof_ms) == (172_800, 2_000, 0)
    assert (options.reconciliation_capacity, options.resolved_ttl_s) == (1_000_000, 604_800)


@pytest.mark.parametrize("name", [field.name for field in fields(LedgerOptions)])
def test_negative_option_is_refused(name: str) -> None:
    """An option out of range names itself."""
    with pytest.raises(InvalidInputError, match=name):
        LedgerOptions(**{name: -1})


@pytest.mark.parametrize("ending", [None, *FinishedAs])
def test_mark_tells_digest_and_ending(ending: FinishedAs | None) -> None:
    """A mark is of its own digest, of no other, and tells how the job ended."""
    mark = dedup_mark.mark_of(builders.job().digest, ending)

    assert dedup_mark.is_of(mark, builders.job().digest)
    assert not dedup_mark.is_of(mark, builders.job(payload=b"other").digest)
    assert dedup_mark.ending_of(mark) is ending


@pytest.mark.parametrize("ending", FinishedAs)
def test_mark_with_the_whole_word_is_understood(ending: FinishedAs) -> None:
    """A mark that an earlier version wrote tells how the job ended."""
    assert dedup_mark.ending_of(builders.job().digest[:16] + ending.value.encode()) is ending


def test_instants_are_exact_to_the_microsecond() -> None:
    """A datetime's microseconds survive, before and after the epoch."""
    assert micros_of(datetime(2025, 6, 15, 12, 0, 0, 1, tzinfo=UTC)) == 1_749_988_800_000_001
    assert micros_of(datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)) == -1_000_000


def test_naive_instant_is_refused() -> None:
    """A time without a zone could be any of 24 instants."""
    with pytest.raises(InvalidInputError):
        micros_of(datetime(2025, 6, 15))  # noqa: DTZ001  # the refused case


def test_mark_that_is_put_again_lives_on() -> None:
    """Putting a key again counts from then, and keeps the order in which marks expire."""
    marks = ExpiringMarks[str](ttl_ms=100)
    marks.put("a", "old", 0)
    marks.put("b", "b", 50)
    marks.put("a", "new", 60)

    marks.put("c", "c", 155)

    assert (marks.get("a", 155), marks.get("b", 155), len(marks)) == ("new", None, 2)
