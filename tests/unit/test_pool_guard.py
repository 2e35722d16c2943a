"""What the main process does about pool processes that are gone."""

from types import SimpleNamespace
from typing import Any

from worker import pool_guard


def test_a_process_that_is_gone_is_not_watched() -> None:
    """A new connection watches the living and the new, and passes over what Celery has put away already."""
    watched: list[Any] = []
    pool = SimpleNamespace(_track_child_process=lambda process, _hub: watched.append(process))
    new, living, gone = SimpleNamespace(), SimpleNamespace(_sentinel_poll=7), SimpleNamespace(_sentinel_poll=None)

    for _ in range(2):
        pool_guard.watch_only_the_living(pool)
    for process in (new, living, gone):
        pool._track_child_process(process, None)

    assert watched == [new, living]


def test_pools_without_processes_are_left_alone() -> None:
    """Threads have nothing to watch."""
    threads = SimpleNamespace()

    pool_guard.watch_only_the_living(threads)
    pool_guard.watch_only_the_living(None)

    assert vars(threads) == {}
