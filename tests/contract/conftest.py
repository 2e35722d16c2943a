"""Every behaviour in this folder runs on every back end."""

from collections.abc import Callable

import pytest

from storage.options import LedgerOptions
from tests.support import backends

MakeBackend = Callable[[LedgerOptions], backends.Backend]


@pytest.fixture(
    params=[pytest.param(name, marks=pytest.mark.server if name == "redis" else ()) for name in backends.NAMES]
)
def make_backend(request: pytest.FixtureRequest) -> MakeBackend:
    """Return what makes an empty back end with the given options; call it once per test."""
    if request.param == "memory":
        return backends.memory
    url: str = request.getfixturevalue("redis_url")
    return lambda options: backends.on_redis(url, options)


@pytest.fixture
def backend(make_backend: MakeBackend) -> backends.Backend:
    """Return an empty back end with the default options."""
    return make_backend(LedgerOptions())
