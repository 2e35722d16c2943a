"""What `admit`, `admit_many` and `admit_and_claim` promise."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from reliability.errors import InvalidInputError
from storage.jobs import (
    Admitted,
    Await,
    Bury,
    Claim,
    ClaimCause,
    Conflict,
    Duplicate,
    DuplicateOf,
    Finish,
    FinishedAs,
    JobKind,
    JobState,
    Refusal,
    Refused,
    Reschedule,
)
from tests.support import builders
from tests.support.backends import Backend


def test_new_job_becomes_an_outstanding_row_due_now(backend: Backend) -> None:
    """A new id is admitted: attempt 0, outstanding, due now, with the digest of its payload."""
    new = builders.job()
    before_ms = backend.now_ms()

    answer = backend.storage.jobs.admit(new)

    row = backend.storage.jobs.get("rcpt-1")
    assert answer == Admitted()
    assert row is not None
    assert (row.kind, row.queue, row.state, row.attempt, row.version) == (
        JobKind.SETTLEMENT,
        "settlement",
        JobState.OUTSTANDING,
        0,
        0,
    )
    assert (row.digest, row.finalized_at, row.first_attempt_at_ms) == (new.digest, builders.FINALIZED_AT, None)
    assert row.due_at_ms == row.admitted_at_ms
    assert backend.is_about(row.due_at_ms, before_ms)


def test_row_shows_neither_owner_nor_lease_until_claimed(backend: Backend) -> None:
    """A row that nobody claimed has no owner and no lease."""
    backend.storage.jobs.admit(builders.job())

    row = backend.storage.jobs.get("rcpt-1")

    assert row is not None
    assert (row.owner, row.lease_until_ms, row.wakeups) == (None, None, 0)


def test_same_bytes_are_a_duplicate_whatever_the_age(backend: Backend) -> None:
    """An id in the ledger is a duplicate long after the dedup window has passed."""
    backend.storage.jobs.admit(builders.job())
    backend.travel(3 * backend.options.dedup_ttl_s * 1_000)

    answer = backend.storage.jobs.admit(builders.job())

    assert answer == Duplicate(of=DuplicateOf.IN_LEDGER)


def test_other_bytes_conflict_and_change_nothing(backend: Backend) -> None:
    """The same id with another payload is a conflict; the row stays as it was."""
    backend.storage.jobs.admit(builders.job())
    before = backend.storage.jobs.get("rcpt-1")

    answer = backend.storage.jobs.admit(builders.job(payload=b"other"))

    assert answer == Conflict()
    assert backend.storage.jobs.get("rcpt-1") == before
    assert builders.claimed(backend.storage.jobs).payload == builders.job().payload


def test_finished_job_is_a_duplicate_within_the_window(backend: Backend) -> None:
    """After a job ended well its id is known until the window has passed, counted from the end."""
    claim = builders.admitted_and_claimed(backend.storage.jobs, by=builders.lease(lease_ms=86_400_000))
    backend.travel(80_000_000)
    backend.storage.jobs.record(claim, Finish(finished_as=FinishedAs.SETTLED))
    backend.travel(backend.options.dedup_ttl_s * 1_000 - 60_000)

    assert backend.storage.jobs.admit(builders.job()) == Duplicate(of=DuplicateOf.FINISHED)
    assert backend.storage.jobs.admit(builders.job(payload=b"other")) == Conflict()


def test_finished_job_is_new_after_the_window(backend: Backend) -> None:
    """Once the window has passed the id is new again."""
    claim = builders.admitted_and_claimed(backend.storage.jobs)
    backend.storage.jobs.record(claim, Finish(finished_as=FinishedAs.SETTLED))
    backend.travel(backend.options.dedup_ttl_s * 1_000 + 1)

    assert backend.storage.jobs.admit(builders.job()) == Admitted()


def test_dead_job_is_a_duplicate_whatever_the_age(backend: Backend) -> None:
    """A dead letter keeps its id known for ever: same bytes are a duplicate, others a conflict."""
    claim = builders.admitted_and_claimed(backend.storage.jobs)
    backend.storage.jobs.record(claim, Bury(record=builders.dead_letter()))
    backend.travel(3 * backend.options.dedup_ttl_s * 1_000)

    assert backend.storage.jobs.admit(builders.job()) == Duplicate(of=DuplicateOf.DEAD)
    assert backend.storage.jobs.admit(builders.job(payload=b"other")) == Conflict()


def test_dead_letter_without_a_job_keeps_its_id_dead(backend: Backend) -> None:
    """A record that was appended without a job has no bytes to compare, so its id is dead whatever comes."""
    backend.storage.dead_letters.append(builders.dead_letter())

    assert backend.storage.jobs.admit(builders.job(payload=b"any")) == Duplicate(of=DuplicateOf.DEAD)


def test_refused_admissions_are_counted(backend: Backend) -> None:
    """Duplicates and conflicts raise their counters and nothing else."""
    jobs = backend.storage.jobs
    jobs.admit(builders.job())

    jobs.admit(builders.job())
    jobs.admit(builders.job())
    jobs.admit(builders.job(payload=b"other"))

    counts = jobs.counts(JobKind.SETTLEMENT)
    assert (counts.admitted, counts.duplicates, counts.conflicts) == (1, 2, 1)
    assert counts.in_flight[JobState.OUTSTANDING] == 1


def test_admit_many_answers_each_in_order(backend: Backend) -> None:
    """Each job of a batch is admitted as alone, the earlier ones first."""
    first, other = builders.job("a"), builders.job("a", payload=b"other")

    answers = backend.storage.jobs.admit_many([first, builders.job("b"), first, other])

    assert answers == [Admitted(), Admitted(), Duplicate(of=DuplicateOf.IN_LEDGER), Conflict()]


def test_admit_many_of_nothing_is_nothing(backend: Backend) -> None:
    """An empty batch has no answers."""
    assert backend.storage.jobs.admit_many([]) == []


def test_admit_and_claim_does_both(backend: Backend) -> None:
    """A new job is admitted and its attempt 0 claimed in one step."""
    lease = builders.lease(owner="worker-7", lease_ms=5_000)

    claim = backend.storage.jobs.admit_and_claim(builders.job(), lease)

    assert isinstance(claim, Claim)
    assert (claim.attempt, claim.version, claim.token, claim.cause) == (0, 1, lease.token, ClaimCause.DUE)
    assert (claim.payload, claim.finalized_at) == (builders.job().payload, builders.FINALIZED_AT)
    assert claim.lease_until_ms - claim.claimed_at_ms == 5_000
    assert claim.admitted_at_ms == claim.first_attempt_at_ms == claim.claimed_at_ms


def test_admit_and_claim_only_claims_a_known_job(backend: Backend) -> None:
    """A job that was admitted before is claimed without counting a duplicate."""
    backend.storage.jobs.admit(builders.job())

    claim = backend.storage.jobs.admit_and_claim(builders.job(), builders.lease())

    assert isinstance(claim, Claim)
    assert backend.storage.jobs.counts(JobKind.SETTLEMENT).duplicates == 0


def test_admit_and_claim_of_a_running_job_is_refused(backend: Backend) -> None:
    """A repeated message for a job that runs finds it leased."""
    backend.storage.jobs.admit_and_claim(builders.job(), builders.lease())

    assert backend.storage.jobs.admit_and_claim(builders.job(), builders.lease()) == Refused(why=Refusal.LEASED)


def test_admit_and_claim_of_a_later_attempt_is_refused(backend: Backend) -> None:
    """A repeated first message cannot claim attempt 1."""
    claim = builders.admitted_and_claimed(backend.storage.jobs)
    backend.storage.jobs.record(claim, Reschedule(attempt=1, delay_ms=0, publishes=True))

    assert backend.storage.jobs.admit_and_claim(builders.job(), builders.lease()) == Refused(why=Refusal.OTHER_ATTEMPT)


def test_admit_and_claim_of_an_ended_job_is_a_duplicate(backend: Backend) -> None:
    """A repeated message for a job that is finished or dead is a duplicate, and counted."""
    jobs = backend.storage.jobs
    jobs.record(builders.admitted_and_claimed(jobs, builders.job("done")), Finish(finished_as=FinishedAs.SETTLED))
    jobs.record(builders.admitted_and_claimed(jobs, builders.job("dead")), Bury(record=builders.dead_letter("dead")))

    assert jobs.admit_and_claim(builders.job("done"), builders.lease()) == Duplicate(of=DuplicateOf.FINISHED)
    assert jobs.admit_and_claim(builders.job("dead"), builders.lease()) == Duplicate(of=DuplicateOf.DEAD)
    assert jobs.counts(JobKind.SETTLEMENT).duplicates == 2


def test_admit_and_claim_of_other_bytes_conflicts(backend: Backend) -> None:
    """Other bytes under a known id are neither admitted nor claimed."""
    backend.storage.jobs.admit(builders.job())

    assert backend.storage.jobs.admit_and_claim(builders.job(payload=b"other"), builders.lease()) == Conflict()
    assert backend.storage.jobs.counts(JobKind.SETTLEMENT).in_flight[JobState.OUTSTANDING] == 1


def test_delivery_that_awaits_is_refused(backend: Backend) -> None:
    """A repeated message for a delivery that waits for its receipt claims nothing."""
    new = builders.delivery_job()
    claim = builders.admitted_and_claimed(backend.storage.jobs, new)
    backend.storage.jobs.record(claim, Await(request=builders.pending()))

    assert backend.storage.jobs.admit_and_claim(new, builders.lease()) == Refused(why=Refusal.AWAITING)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"job_id": ""}, id="empty id"),
        pytest.param({"job_id": "x" * 1_025}, id="long id"),
        pytest.param({"job_id": "a\0b"}, id="NUL in the id"),
        pytest.param({"job_id": "\ud800"}, id="id that UTF-8 cannot hold"),
        pytest.param({"queue": ""}, id="empty queue"),
        pytest.param({"queue": "q" * 129}, id="long queue"),
        pytest.param({"queue": "a\0b"}, id="NUL in the queue"),
        pytest.param({"finalized_at": -1}, id="negative time"),
        pytest.param({"finalized_at": 2**53}, id="time without a canonical form"),
        pytest.param({"kind": JobKind.DELIVERY}, id="delivery under a receipt id"),
    ],
)
def test_job_out_of_range_is_refused(backend: Backend, changes: dict[str, Any]) -> None:
    """What could not be kept, found or buried later is refused before anything is written."""
    refused = builders.job(**changes)

    with pytest.raises(InvalidInputError):
        backend.storage.jobs.admit(refused)
    with pytest.raises(InvalidInputError):
        backend.storage.jobs.admit_and_claim(refused, builders.lease())
    with pytest.raises(InvalidInputError):
        backend.storage.jobs.admit_many([builders.job("good"), refused])
    assert backend.storage.jobs.counts(refused.kind).admitted == 0


def test_one_of_many_callers_admits(backend: Backend) -> None:
    """Of 16 callers with one id and the same bytes exactly one is told that it is new."""
    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(lambda _: backend.storage.jobs.admit(builders.job()), range(16)))

    assert sorted(map(repr, answers)) == [
        repr(Admitted()),
        *[repr(Duplicate(of=DuplicateOf.IN_LEDGER))] * 15,
    ]
