"""What `claim`, `claim_many` and `renew` promise."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from reliability.errors import InvalidInputError, StaleClaimError
from storage.jobs import (
    Await,
    Claim,
    ClaimCause,
    Finish,
    FinishedAs,
    JobState,
    NotDue,
    Refusal,
    Refused,
    Reschedule,
)
from tests.support import builders
from tests.support.backends import Backend

SETTLED = Finish(finished_as=FinishedAs.SETTLED)


def test_claim_carries_the_job_and_the_lease(backend: Backend) -> None:
    """A claim holds the payload, the attempt, the token it was asked with and the end of the lease."""
    backend.storage.jobs.admit(builders.job())
    lease = builders.lease(owner="worker-7", lease_ms=5_000)

    claim = builders.claimed(backend.storage.jobs, by=lease)

    row = backend.storage.jobs.get("rcpt-1")
    assert row is not None
    assert (claim.job_id, claim.queue, claim.attempt, claim.token) == ("rcpt-1", "settlement", 0, lease.token)
    assert claim.payload == builders.job().payload
    assert claim.lease_until_ms == claim.claimed_at_ms + 5_000
    assert (row.state, row.owner, row.lease_until_ms) == (JobState.LEASED, "worker-7", claim.lease_until_ms)


def test_each_claim_raises_the_version(backend: Backend) -> None:
    """The version grows by one with every claim, also for the same attempt."""
    first = builders.admitted_and_claimed(backend.storage.jobs)
    backend.storage.jobs.record(first, Reschedule(attempt=0, delay_ms=0, publishes=True))

    second = builders.claimed(backend.storage.jobs)

    assert (first.version, second.version) == (1, 2)


def test_first_attempt_time_stays(backend: Backend) -> None:
    """Every later claim tells when attempt 0 was first claimed."""
    first = builders.admitted_and_claimed(backend.storage.jobs)
    backend.storage.jobs.record(first, Reschedule(attempt=1, delay_ms=0, publishes=True))
    backend.travel(60_000)

    second = builders.claimed(backend.storage.jobs, attempt=1)

    assert first.first_attempt_at_ms == first.claimed_at_ms
    waited_ms = second.claimed_at_ms - second.first_attempt_at_ms
    assert backend.is_about(waited_ms, 60_000)


def test_unknown_job_is_gone(backend: Backend) -> None:
    """There is nothing to claim of an id that is not in the ledger."""
    assert backend.storage.jobs.claim("nobody", 0, builders.lease()) == Refused(why=Refusal.GONE)


@pytest.mark.parametrize("attempt", [0, 2])
def test_other_attempt_is_refused(backend: Backend, attempt: int) -> None:
    """Only exactly the row's attempt is claimed; an older or newer number finds nothing."""
    claim = builders.admitted_and_claimed(backend.storage.jobs)
    backend.storage.jobs.record(claim, Reschedule(attempt=1, delay_ms=0, publishes=True))

    assert backend.storage.jobs.claim("rcpt-1", attempt, builders.lease()) == Refused(why=Refusal.OTHER_ATTEMPT)


def test_leased_row_is_refused(backend: Backend) -> None:
    """A row whose lease is valid is not claimed again, not even by the same owner."""
    builders.admitted_and_claimed(backend.storage.jobs, by=builders.lease(owner="worker-1"))

    again = backend.storage.jobs.claim("rcpt-1", 0, builders.lease(owner="worker-1"))

    assert again == Refused(why=Refusal.LEASED)


def test_early_claim_tells_the_remaining_time(backend: Backend) -> None:
    """The right attempt before its time is told how long to wait, and nothing changes."""
    claim = builders.admitted_and_claimed(backend.storage.jobs)
    backend.storage.jobs.record(claim, Reschedule(attempt=1, delay_ms=60_000, publishes=True))
    before = backend.storage.jobs.get("rcpt-1")

    answer = backend.storage.jobs.claim("rcpt-1", 1, builders.lease())

    assert isinstance(answer, NotDue)
    assert backend.is_about(60_000, answer.remaining_ms)
    assert backend.storage.jobs.get("rcpt-1") == before


def test_parked_row_that_is_due_is_claimed(backend: Backend) -> None:
    """A message that comes for a parked row in time may claim it."""
    claim = builders.admitted_and_claimed(backend.storage.jobs)
    backend.storage.jobs.record(claim, Reschedule(attempt=1, delay_ms=60_000, publishes=False))
    backend.travel(60_000)

    assert builders.claimed(backend.storage.jobs, attempt=1).cause is ClaimCause.DUE


def test_awaiting_row_is_refused(backend: Backend) -> None:
    """A job that waits for its receipt is not claimed."""
    claim = builders.admitted_and_claimed(backend.storage.jobs, builders.delivery_job())
    backend.storage.jobs.record(claim, Await(request=builders.pending()))

    assert backend.storage.jobs.claim(claim.job_id, 0, builders.lease()) == Refused(why=Refusal.AWAITING)


def test_expired_lease_is_claimed_as_such(backend: Backend) -> None:
    """The next claim of an attempt whose lease ran out says so, so that the attempt is counted as failed."""
    backend.storage.jobs.admit(builders.job())
    builders.claimed(backend.storage.jobs, by=builders.lease(lease_ms=1_000))
    backend.travel(1_000)

    claim = builders.claimed(backend.storage.jobs)

    assert (claim.cause, claim.attempt, claim.version) == (ClaimCause.LEASE_EXPIRED, 0, 2)


def test_expired_holder_cannot_record_after_the_next_claim(backend: Backend) -> None:
    """A stale worker never overwrites a newer one."""
    backend.storage.jobs.admit(builders.job())
    stale = builders.claimed(backend.storage.jobs, by=builders.lease(lease_ms=1_000))
    backend.travel(1_000)
    fresh = builders.claimed(backend.storage.jobs)

    with pytest.raises(StaleClaimError):
        backend.storage.jobs.record(stale, SETTLED)

    backend.storage.jobs.record(fresh, SETTLED)
    assert backend.storage.jobs.get("rcpt-1") is None


def test_claim_many_answers_each_in_order(backend: Backend) -> None:
    """Each pair of a batch is claimed as alone, with the token of the lease."""
    backend.storage.jobs.admit_many([builders.job("a"), builders.job("b")])

    first, gone, second = backend.storage.jobs.claim_many(
        [("a", 0), ("nobody", 0), ("b", 0)], builders.lease(token="t")
    )

    assert isinstance(first, Claim)
    assert isinstance(second, Claim)
    assert gone == Refused(why=Refusal.GONE)
    assert (first.job_id, first.token, second.job_id, second.token) == ("a", "t", "b", "t")
    assert backend.storage.jobs.record_many([(first, SETTLED), (second, SETTLED)]) == [None, None]


def test_finalisation_of_many_is_told_in_order(backend: Backend) -> None:
    """Each id is answered in its place, None for one without a row; no id, no answer."""
    jobs = backend.storage.jobs
    jobs.admit_many([builders.job("a", finalized_at=7), builders.job("b", finalized_at=0)])

    assert jobs.finalized_at_many(["b", "nobody", "a"]) == [0, None, 7]
    assert jobs.finalized_at_many([]) == []


def test_claim_many_of_nothing_is_nothing(backend: Backend) -> None:
    """An empty batch has no answers."""
    assert backend.storage.jobs.claim_many([], builders.lease()) == []


def test_claim_batch_is_bounded(backend: Backend) -> None:
    """1,024 rows are claimed at once, 1,025 are refused."""
    wanted = [(f"job-{number}", 0) for number in range(1_025)]

    assert len(backend.storage.jobs.claim_many(wanted[:1_024], builders.lease())) == 1_024
    with pytest.raises(InvalidInputError, match="at most 1024"):
        backend.storage.jobs.claim_many(wanted, builders.lease())


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"owner": ""}, id="no owner"),
        pytest.param({"owner": "é" * 65}, id="owner of 130 bytes"),
        pytest.param({"owner": "a\0b"}, id="NUL in the owner"),
        pytest.param({"lease_ms": 0}, id="no time"),
        pytest.param({"lease_ms": 86_400_001}, id="more than a day"),
        pytest.param({"lease_ms": True}, id="not a number"),
        pytest.param({"token": "t" * 129}, id="long token"),
    ],
)
def test_lease_out_of_range_is_refused(backend: Backend, changes: dict[str, Any]) -> None:
    """A lease out of range claims nothing, whichever operation it comes with."""
    jobs, lease = backend.storage.jobs, builders.lease(**changes)
    jobs.admit(builders.job())

    with pytest.raises(InvalidInputError):
        jobs.claim("rcpt-1", 0, lease)
    with pytest.raises(InvalidInputError):
        jobs.claim_many([("rcpt-1", 0)], lease)
    with pytest.raises(InvalidInputError):
        jobs.admit_and_claim(builders.job(), lease)
    assert isinstance(jobs.claim("rcpt-1", 0, builders.lease()), Claim)


@pytest.mark.parametrize(
    "lease", [builders.lease(owner="w", lease_ms=1), builders.lease(owner="w" * 128, lease_ms=86_400_000)]
)
def test_lease_at_its_limits_is_taken(backend: Backend, lease: Any) -> None:
    """Owners of 1 and 128 bytes and leases of 1 ms and a day are valid."""
    claim = backend.storage.jobs.admit_and_claim(builders.job(), lease)

    assert isinstance(claim, Claim)
    assert claim.lease_until_ms - claim.claimed_at_ms == lease.lease_ms


@pytest.mark.parametrize("attempt", [-1, 2**32])
def test_attempt_out_of_range_is_refused(backend: Backend, attempt: int) -> None:
    """An attempt number that no row can have is an error, not a refusal."""
    with pytest.raises(InvalidInputError):
        backend.storage.jobs.claim("rcpt-1", attempt, builders.lease())


def test_renewed_lease_holds_longer(backend: Backend) -> None:
    """A renewed claim can be recorded after its first lease would have ended."""
    claim = builders.admitted_and_claimed(backend.storage.jobs, by=builders.lease(lease_ms=20_000))

    renewed = backend.storage.jobs.renew([claim], 3_600_000)
    backend.travel(60_000)

    assert renewed == [True]
    assert backend.storage.jobs.due(10) == []
    backend.storage.jobs.record(claim, SETTLED)


def test_renew_answers_each_claim(backend: Backend) -> None:
    """Only leases that hold are extended: not an expired one, not one with another token or version, not a lost job."""
    jobs = backend.storage.jobs
    good = builders.admitted_and_claimed(jobs, builders.job("good"), builders.lease(lease_ms=3_600_000))
    expired = builders.admitted_and_claimed(jobs, builders.job("expired"), builders.lease(lease_ms=1_000))
    backend.travel(1_000)
    forged = dataclasses.replace(good, token="guess")
    older = dataclasses.replace(good, version=0)
    lost = dataclasses.replace(good, job_id="lost")

    assert jobs.renew([good, expired, forged, older, lost], 5_000) == [True, False, False, False, False]


def test_renew_out_of_range_is_refused(backend: Backend) -> None:
    """A renewal is bounded as a lease is, in time and in number."""
    claim = builders.admitted_and_claimed(backend.storage.jobs)

    with pytest.raises(InvalidInputError):
        backend.storage.jobs.renew([claim], 0)
    with pytest.raises(InvalidInputError):
        backend.storage.jobs.renew([claim] * 1_025, 1_000)
    assert backend.storage.jobs.renew([], 1_000) == []


def test_one_of_many_claimants_wins(backend: Backend) -> None:
    """Of 16 callers that claim one attempt exactly one gets it."""
    backend.storage.jobs.admit(builders.job())

    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(lambda _: backend.storage.jobs.claim("rcpt-1", 0, builders.lease()), range(16)))

    assert sum(isinstance(answer, Claim) for answer in answers) == 1
    assert answers.count(Refused(why=Refusal.LEASED)) == 15
