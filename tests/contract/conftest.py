"""Every behaviour in this folder runs on every back end, and no back end leaves a key that `keys` does not name."""

from collections.abc import Callable, Iterator

import pytest

from storage.keys import Keys
from storage.options import LedgerOptions
from tests.support import backends, servers

MakeBackend = Callable[[LedgerOptions], backends.Backend]


@pytest.fixture(
    params=[pytest.param(name, marks=pytest.mark.server if name == "redis" else ()) for name in backends.NAMES]
)
def make_backend(request: pytest.FixtureRequest) -> Iterator[MakeBackend]:
    """Return what makes an empty back end with the given options; call it once per test."""
    if request.param == "memory":
        yield backends.memory
        return
    url: str = request.getfixturevalue("redis_url")
    yield lambda options: backends.on_redis(url, options)
    assert unnamed_keys(request.getfixturevalue("redis_server"), url) == []


@pytest.fixture
def backend(make_backend: MakeBackend) -> backends.Backend:
    """Return an empty back end with the default options."""
    return make_backend(LedgerOptions())


def unnamed_keys(server: servers.RedisServer, url: str) -> list[tuple[str, str]]:
    """Return the keys of a test's database, with their types, that `keys` does not name with this type."""
    keys = Keys(backends.NAMESPACE)
    with server.client(int(url.rpartition("/")[2])) as client:
        found = [(key.decode(), client.type(key).decode()) for key in client.scan_iter(count=1_000)]
    named = ((key, redis_type, keys.kind_of(key)) for key, redis_type in found)
    return [(key, redis_type) for key, redis_type, kind in named if kind is None or kind.redis_type != redis_type]
