"""Fixtures for every tier: one real server per test process, and a fresh database of it for each test."""

import itertools
from collections.abc import Iterator

import pytest

# pytest-celery shadows this fixture with one that needs Docker; the in-process worker is the one meant here.
from celery.contrib.pytest import celery_worker as celery_worker  # noqa: PLC0414  # re-exported for pytest

from tests.support import servers

_databases = itertools.cycle(range(servers.DATABASES))


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.RedisServer]:
    """Run one server for the session; a test that stops or kills a server starts its own instead."""
    with servers.RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def redis_url(redis_server: servers.RedisServer) -> Iterator[str]:
    """Give the address of an empty database that no other test uses at the same time."""
    database = next(_databases)
    with redis_server.client(database) as client:
        client.flushdb()
        yield redis_server.url_of(database)
        client.flushdb()
