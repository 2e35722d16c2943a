"""Both back ends for flows that keep something."""

from collections.abc import Iterator

import pytest

from tests.support import backends


@pytest.fixture(
    params=[pytest.param(name, marks=pytest.mark.server if name == "redis" else ()) for name in backends.NAMES]
)
def backend(request: pytest.FixtureRequest) -> Iterator[backends.Backend]:
    """Return an empty back end with the default options."""
    if request.param == "memory":
        yield backends.memory()
    else:
        yield backends.on_redis(request.getfixturevalue("redis_url"))
