"""What `DedupStorage` promises, on all three forms of it."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta

import pytest

from reliability.errors import InvalidInputError, StorageUnavailableError
from storage import redis_client
from storage.keys import Key, Keys
from storage.memory_dedup import InMemoryDedupStorage, TtlDedupStorage
from storage.protocols import DedupStorage
from storage.redis_dedup import RedisDedupStorage
from tests.support import backends
from tests.support.clock import ManualClock

TTL = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dedup:
    """Hold one form of deduplication and a way to let time pass on it."""

    storage: DedupStorage
    travel: Callable[[int], None]


def forgetful(name: str, request: pytest.FixtureRequest) -> Dedup:
    """Return a form that forgets after its ttl."""
    if name == "ttl":
        clock = ManualClock()
        return Dedup(storage=TtlDedupStorage(TTL, clock=clock), travel=clock.advance)
    client, keys = redis_client.connect(request.getfixturevalue("redis_url")), Keys(backends.NAMESPACE)
    storage = RedisDedupStorage(client, TTL, namespace=keys.namespace)
    return Dedup(storage=storage, travel=lambda ms: backends.shift(client, keys, ms))


@pytest.fixture(params=["memory", "ttl", pytest.param("redis", marks=pytest.mark.server)])
def storage(request: pytest.FixtureRequest) -> DedupStorage:
    """Return each form in turn."""
    return InMemoryDedupStorage() if request.param == "memory" else forgetful(request.param, request).storage


@pytest.fixture(params=["ttl", pytest.param("redis", marks=pytest.mark.server)])
def dedup(request: pytest.FixtureRequest) -> Dedup:
    """Return each form that forgets."""
    return forgetful(request.param, request)


def test_key_is_new_once(storage: DedupStorage) -> None:
    """A key is seen for the first time once; another key is none of its business."""
    assert [storage.first_seen(key) for key in ("a", "a", "b", "a")] == [True, False, True, False]


def test_one_of_many_callers_is_first(storage: DedupStorage) -> None:
    """Of 16 parallel callers with one key exactly one is told that it is the first."""
    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(lambda _: storage.first_seen("key"), range(16)))

    assert answers.count(True) == 1


@pytest.mark.parametrize("key", ["a:b", "käse", "a b\nc", "x" * 10_000])
def test_any_text_is_a_key(storage: DedupStorage, key: str) -> None:
    """Keys of any form are kept apart."""
    assert [storage.first_seen(key), storage.first_seen(key), storage.first_seen(key + "!")] == [True, False, True]


def test_key_is_known_within_its_ttl(dedup: Dedup) -> None:
    """A key is a duplicate until its ttl has passed."""
    dedup.storage.first_seen("key")
    dedup.travel(45_000)

    assert dedup.storage.first_seen("key") is False


def test_older_key_counts_as_unseen(dedup: Dedup) -> None:
    """A key older than its ttl is new again."""
    dedup.storage.first_seen("key")
    dedup.travel(60_001)

    assert [dedup.storage.first_seen("key"), dedup.storage.first_seen("key")] == [True, False]


def test_duplicate_does_not_extend_the_ttl(dedup: Dedup) -> None:
    """The window counts from the first sight."""
    dedup.storage.first_seen("key")
    dedup.travel(45_000)
    dedup.storage.first_seen("key")
    dedup.travel(15_001)

    assert dedup.storage.first_seen("key") is True


def test_expired_keys_take_no_memory() -> None:
    """The TTL form drops what has expired when new keys come, without a thread."""
    clock = ManualClock()
    storage = TtlDedupStorage(TTL, clock=clock)
    for number in range(1_000):
        storage.first_seen(f"old-{number}")
    clock.advance(60_001)

    storage.first_seen("new")

    assert len(storage._marks) == 1


@pytest.mark.parametrize("ttl", [timedelta(0), timedelta(seconds=-1)])
def test_window_of_nothing_is_refused(ttl: timedelta) -> None:
    """A ttl that would remember nothing is a mistake in the settings."""
    with pytest.raises(InvalidInputError):
        TtlDedupStorage(ttl)
    with pytest.raises(InvalidInputError):
        RedisDedupStorage(redis_client.connect("redis://127.0.0.1:1/0"), ttl)


def test_unreachable_store_is_an_error() -> None:
    """A store that cannot answer is never taken as "new"."""
    storage = RedisDedupStorage(redis_client.connect("redis://127.0.0.1:1/0"))

    with pytest.raises(StorageUnavailableError) as raised:
        storage.first_seen("key")

    assert (raised.value.operation, raised.value.key) == ("first_seen", "key")


@pytest.mark.server
def test_redis_form_is_one_key_with_an_expiry(redis_url: str) -> None:
    """The Redis form leaves one key of its kind, which expires after the ttl."""
    client, keys = redis_client.connect(redis_url), Keys(backends.NAMESPACE)

    RedisDedupStorage(client, TTL, namespace=keys.namespace).first_seen("key")

    stored = [key.decode() for key in client.scan_iter()]
    assert stored == [keys.of(Key.DEDUP, "key")]
    assert 55 < client.ttl(stored[0]) <= 60
