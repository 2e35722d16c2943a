"""Jobs that are admitted while more of them are made: sent in groups, answered in order, undisturbed by what fails."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from reliability.errors import InvalidInputError, StorageUnavailableError
from storage import bundle
from storage.jobs import Admitted, JobKind, NewJob
from storage.redis_groups import GROUP
from tests.support import backends, builders, servers
from tests.support.worker_process import poll

pytestmark = pytest.mark.server

LIMIT_S: Final = 60.0


def made(count: int) -> Iterator[NewJob]:
    """Make jobs one by one."""
    for number in range(count):
        yield builders.job(f"job-{number}")


def admitted(stores: bundle.Storage) -> int:
    """Count what the ledger has admitted."""
    return stores.jobs.counts(JobKind.SETTLEMENT).admitted


def test_the_first_group_is_admitted_while_the_next_is_made(stores: bundle.Storage) -> None:
    """The server has a whole group before the next is complete; the answers stand in order all the same."""
    stores.jobs.admit_many([builders.job("warm"), builders.job("up")])

    def waiting() -> Iterator[NewJob]:
        for number, job in enumerate(made(2 * GROUP)):
            if number == 2 * GROUP - 1:
                poll(lambda: admitted(stores) == GROUP + 2, LIMIT_S, "the first group to be admitted")
            yield job

    answers = stores.jobs.admit_many(waiting())

    assert answers == [Admitted()] * (2 * GROUP)


def test_scripts_that_are_forgotten_on_the_way_run_once(stores: bundle.Storage, raw: Any) -> None:
    """A server that lost its scripts between two groups gets them again: every job is admitted, none twice."""

    def flushing() -> Iterator[NewJob]:
        for number, job in enumerate(made(3 * GROUP)):
            if number == GROUP:
                admitted(stores)
                raw.script_flush()
            yield job

    assert stores.jobs.admit_many(flushing()) == [Admitted()] * (3 * GROUP)
    assert admitted(stores) == 3 * GROUP


@pytest.mark.parametrize("refused_at", [0, 1, GROUP, 2 * GROUP - 1])
def test_what_making_a_job_raises_comes_through(stores: bundle.Storage, refused_at: int) -> None:
    """The groups before it stay admitted, its own group is not sent, and the next exchange reads its own replies."""

    def failing() -> Iterator[NewJob]:
        for number, job in enumerate(made(2 * GROUP)):
            if number == refused_at:
                raise InvalidInputError("amount", "expected one")
            yield job

    with pytest.raises(InvalidInputError):
        stores.jobs.admit_many(failing())

    assert stores.jobs.admit_many([builders.job("after"), builders.job("more")]) == [Admitted(), Admitted()]
    assert admitted(stores) == refused_at // GROUP * GROUP + 2


def test_a_job_out_of_range_in_a_later_group_is_refused(stores: bundle.Storage) -> None:
    """It takes nothing of the groups before it along, and admits nothing of its own."""
    jobs = [*made(GROUP), builders.job("good"), builders.job("bad", finalized_at=-1)]

    with pytest.raises(InvalidInputError):
        stores.jobs.admit_many(jobs)

    assert stores.jobs.get("good") is None
    assert stores.jobs.get("job-0") is not None


def test_a_server_that_goes_away_on_the_way_is_told(tmp_path: Path) -> None:
    """Half of the jobs are sent when the server is killed; afterwards the same jobs count once."""
    with servers.RedisServer(tmp_path) as server:
        stores = backends.on_redis(server.url).storage
        stores.jobs.admit(builders.job("warm"))

        def cut() -> Iterator[NewJob]:
            for number, job in enumerate(made(2 * GROUP)):
                if number == GROUP:
                    server.kill()
                yield job

        with pytest.raises(StorageUnavailableError):
            stores.jobs.admit_many(cut())
        server.start()

        stores.jobs.admit_many(made(2 * GROUP))
        assert admitted(stores) == 2 * GROUP + 1
