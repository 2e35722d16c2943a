"""What `replay` and a cleared dead letter promise."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from reliability.errors import StaleClaimError
from storage.jobs import (
    Admitted,
    Bury,
    Claim,
    Finish,
    FinishedAs,
    JobKind,
    JobState,
    WakeUp,
    WakeUpCause,
)
from tests.support import builders
from tests.support.backends import Backend

SETTLED = Finish(finished_as=FinishedAs.SETTLED)


def buried(backend: Backend, job_id: str = "rcpt-1") -> Claim:
    """Admit a job and let it die."""
    claim = builders.admitted_and_claimed(backend.storage.jobs, builders.job(job_id))
    backend.storage.jobs.record(claim, Bury(record=builders.dead_letter(job_id)))
    return claim


def test_replayed_job_starts_over(backend: Backend) -> None:
    """A dead job comes back at attempt 0 with its bytes; its dead letter is gone and it is in flight again."""
    buried(backend)

    wake = backend.storage.jobs.replay("rcpt-1")

    row = backend.storage.jobs.get("rcpt-1")
    expected = WakeUp(job_id="rcpt-1", kind=JobKind.SETTLEMENT, queue="settlement", attempt=0, cause=WakeUpCause.PARKED)
    assert wake == expected
    assert row is not None
    assert (row.state, row.attempt, row.first_attempt_at_ms) == (JobState.OUTSTANDING, 0, None)
    assert row.finalized_at == builders.FINALIZED_AT
    assert backend.storage.dead_letters.get("rcpt-1") is None
    assert backend.storage.dead_letters.unpublished_count() == 0
    assert backend.storage.jobs.counts(JobKind.SETTLEMENT).dead == 0
    assert builders.claimed(backend.storage.jobs).payload == builders.job().payload


def test_replayed_job_goes_on_with_its_version(backend: Backend) -> None:
    """No claim or receipt from before the burial fits the row that came back."""
    claim = buried(backend)
    backend.storage.jobs.replay("rcpt-1")
    again = builders.claimed(backend.storage.jobs)

    assert again.version == claim.version + 1
    assert backend.storage.jobs.conclude("rcpt-1", claim.version, SETTLED) is False
    with pytest.raises(StaleClaimError):
        backend.storage.jobs.record(claim, SETTLED)


def test_replayed_job_may_die_again(backend: Backend) -> None:
    """A replayed job that fails again leaves a new dead letter."""
    buried(backend)
    backend.storage.jobs.replay("rcpt-1")
    second = builders.dead_letter(attempts=9)

    backend.storage.jobs.record(builders.claimed(backend.storage.jobs), Bury(record=second))

    assert backend.storage.dead_letters.get("rcpt-1") == second


def test_replay_without_a_dead_job_is_none(backend: Backend) -> None:
    """There is nothing to replay of an unknown id, of a living job, or of a record without a job."""
    backend.storage.jobs.admit(builders.job("alive"))
    backend.storage.dead_letters.append(builders.dead_letter("appended"))

    assert [backend.storage.jobs.replay(name) for name in ("nobody", "alive", "appended")] == [None, None, None]
    assert backend.storage.dead_letters.count() == 1


def test_one_of_many_replays_wins(backend: Backend) -> None:
    """Of 16 operators that replay one dead letter exactly one gets a wake-up."""
    buried(backend)

    with ThreadPoolExecutor(16) as threads:
        wakes = list(threads.map(lambda _: backend.storage.jobs.replay("rcpt-1"), range(16)))

    assert sum(wake is not None for wake in wakes) == 1


def test_cleared_job_may_be_admitted_again(backend: Backend) -> None:
    """Clearing a dead letter forgets its id; the cleared job stays counted as dead."""
    buried(backend)
    backend.storage.dead_letters.clear("rcpt-1")

    assert backend.storage.jobs.admit(builders.job(payload=b"other")) == Admitted()
    assert backend.storage.jobs.counts(JobKind.SETTLEMENT).dead == 1
