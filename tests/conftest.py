"""Fixtures for every tier: one real server per test process, and a fresh database of it for each test."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import redis
import structlog

# pytest-celery shadows this fixture with one that needs Docker; the in-process worker is the one meant here.
from celery.contrib.pytest import celery_worker as celery_worker  # noqa: PLC0414  # re-exported for pytest

from storage import bundle
from tests.support import backends, servers

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


@pytest.fixture
def stores(redis_url: str) -> bundle.Storage:
    """Return the stores in the test's database, in the namespace `backends.NAMESPACE`."""
    return backends.on_redis(redis_url).storage


@pytest.fixture
def raw(redis_url: str) -> Iterator[Any]:
    """Return a plain client of the test's database."""
    with redis.Redis.from_url(redis_url, protocol=2) as client:
        yield client


@pytest.fixture(autouse=True)
def _fresh_logging(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Undo what a test configures of logging: a logger cached by one test would write past the next one's capture."""
    configure = structlog.configure

    def uncached(**options: Any) -> None:
        configure(**{**options, "cache_logger_on_first_use": False})

    monkeypatch.setattr(structlog, "configure", uncached)
    yield
    structlog.reset_defaults()
