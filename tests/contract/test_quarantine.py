"""What the quarantine promises on every back end."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from storage import redis_client
from storage.keys import Keys
from storage.quarantine import InMemoryQuarantineStorage, QuarantineBounds, QuarantineStorage
from storage.redis_quarantine import RedisQuarantineStorage
from tests.support.backends import NAMES
from tests.support.clock import ManualClock

BOUNDS = QuarantineBounds(max_entries=3, max_bytes=1_000)
#: Every byte there is: none of them may be changed on the way.
ALL_BYTES = bytes(range(256))


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.server if name == "redis" else ()) for name in NAMES])
def kept(request: pytest.FixtureRequest) -> Iterator[QuarantineStorage]:
    """Give an empty quarantine of each back end."""
    if request.param == "memory":
        yield InMemoryQuarantineStorage(BOUNDS, ManualClock().now_ms)
        return
    with redis_client.connect(request.getfixturevalue("redis_url")) as client:
        yield RedisQuarantineStorage(client, Keys("contract:"), BOUNDS)


def test_bytes_come_back_as_they_were(kept: QuarantineStorage) -> None:
    """A message is kept byte for byte, with queue, reason, time, size and digest."""
    entry = kept.keep(ALL_BYTES, "settlement", "undecodable")

    assert kept.raw(entry.entry_id) == ALL_BYTES
    assert kept.get(entry.entry_id) == entry
    assert (entry.queue, entry.reason, entry.size_bytes) == ("settlement", "undecodable", 256)
    assert entry.sha256 == "40aff2e9d2d8922e47afd4648e6967497158785fbd1da870e7110266bf944880"
    assert entry.received_at_ms > 0


def test_the_oldest_comes_first(kept: QuarantineStorage) -> None:
    """Entries are listed in the order they came, page by page."""
    ids = [kept.keep(raw, "settlement", "undecodable").entry_id for raw in (b"1", b"2", b"3")]

    assert [entry.entry_id for entry in kept.list(2)] == ids[:2]
    assert [entry.entry_id for entry in kept.list(2, offset=2)] == ids[2:]
    assert kept.list(10) == [kept.get(entry_id) for entry_id in ids]


def test_the_number_is_bounded(kept: QuarantineStorage) -> None:
    """When too many are kept the oldest goes, and is counted."""
    for raw in (b"1", b"2", b"3", b"4"):
        kept.keep(raw, "settlement", "undecodable")

    counts = kept.counts()
    assert [kept.raw(entry.entry_id) for entry in kept.list(10)] == [b"2", b"3", b"4"]
    assert (counts.entries, counts.size_bytes, counts.kept, counts.dropped) == (3, 3, 4, 1)


def test_the_bytes_are_bounded(kept: QuarantineStorage) -> None:
    """When too many bytes are kept the oldest entries go until the rest fits."""
    for size in (400, 500, 600):
        kept.keep(b"x" * size, "settlement", "too_large")

    assert [entry.size_bytes for entry in kept.list(10)] == [600]
    assert kept.counts().dropped == 2


def test_the_newest_is_always_kept(kept: QuarantineStorage) -> None:
    """A message larger than all room takes all of it rather than vanish unseen."""
    kept.keep(b"1", "settlement", "undecodable")

    entry = kept.keep(b"x" * 2_000, "settlement", "too_large")

    assert [found.entry_id for found in kept.list(10)] == [entry.entry_id]


def test_an_entry_is_removed_once(kept: QuarantineStorage) -> None:
    """Removing tells whether there was something to remove, and gives the room back."""
    entry = kept.keep(b"12345", "settlement", "undecodable")

    assert kept.remove(entry.entry_id)
    assert not kept.remove(entry.entry_id)
    assert kept.get(entry.entry_id) is None
    assert kept.raw(entry.entry_id) is None
    assert (kept.counts().entries, kept.counts().size_bytes, kept.counts().kept) == (0, 0, 1)


def test_everything_can_be_purged(kept: QuarantineStorage) -> None:
    """A purge empties the quarantine and tells how much that was; a purge of nothing is none."""
    for raw in (b"1", b"2"):
        kept.keep(raw, "settlement", "undecodable")

    assert kept.purge() == 2
    assert kept.purge() == 0
    assert kept.list(10) == []


def test_an_id_is_never_used_again(kept: QuarantineStorage) -> None:
    """After a purge new entries have new ids: an id in an operator's notes never means another message."""
    first = kept.keep(b"1", "settlement", "undecodable")
    kept.purge()

    assert kept.keep(b"2", "settlement", "undecodable").entry_id != first.entry_id


def test_concurrent_messages_are_all_counted(kept: QuarantineStorage) -> None:
    """Many threads keep at once: no id comes twice, and kept = still there + dropped."""
    with ThreadPoolExecutor(8) as pool:
        entries = list(pool.map(lambda number: kept.keep(b"%d" % number, "settlement", "undecodable"), range(80)))

    counts = kept.counts()
    assert len({entry.entry_id for entry in entries}) == 80
    assert (counts.kept, counts.entries + counts.dropped) == (80, 80)
