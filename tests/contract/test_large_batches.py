"""What holds for one job holds for each of hundreds: batches larger than any group they are sent in."""

import pytest

from reliability.errors import StaleClaimError
from storage.jobs import (
    Admitted,
    Bury,
    Claim,
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
    Transition,
)
from tests.support import builders
from tests.support.backends import Backend

COUNT = 300
NAMES = [f"job-{number:03}" for number in range(COUNT)]
SETTLED = Finish(finished_as=FinishedAs.SETTLED)


def admitted(backend: Backend) -> list[Claim]:
    """Admit and claim all of them."""
    backend.storage.jobs.admit_many([builders.job(name) for name in NAMES])
    answers = backend.storage.jobs.claim_many([(name, 0) for name in NAMES], builders.lease(token="t"))
    return [answer for answer in answers if isinstance(answer, Claim)]


def balance(backend: Backend, kind: JobKind = JobKind.SETTLEMENT) -> tuple[int, int]:
    """Return how many were admitted, and how many are somewhere."""
    counts = backend.storage.jobs.counts(kind)
    return counts.admitted, sum(counts.finished.values()) + counts.dead + sum(counts.in_flight.values())


def test_each_admission_is_answered_in_order(backend: Backend) -> None:
    """New ones, repeats within the batch and conflicts each get their own answer and are counted."""
    batch = [builders.job(name) for name in NAMES]
    batch[200] = builders.job(NAMES[3])
    batch[290] = builders.job(NAMES[4], payload=b"other")

    answers = backend.storage.jobs.admit_many(batch)

    counts = backend.storage.jobs.counts(JobKind.SETTLEMENT)
    assert answers[200] == Duplicate(of=DuplicateOf.IN_LEDGER)
    assert answers[290] == Conflict()
    assert answers.count(Admitted()) == COUNT - 2
    assert (counts.admitted, counts.duplicates, counts.conflicts) == (COUNT - 2, 1, 1)
    assert counts.in_flight[JobState.OUTSTANDING] == COUNT - 2


def test_each_claim_holds_the_facts_of_its_job(backend: Backend) -> None:
    """Each claim has the token of the lease, and holds what its job was admitted with."""
    jobs = [builders.job(name, payload=name.encode(), finalized_at=place) for place, name in enumerate(NAMES)]
    backend.storage.jobs.admit_many(jobs)

    answers = backend.storage.jobs.claim_many([(name, 0) for name in NAMES], builders.lease(token="t"))

    claims = [answer for answer in answers if isinstance(answer, Claim)]
    assert [claim.token for claim in claims] == ["t"] * COUNT
    assert [(claim.job_id, claim.payload, claim.finalized_at) for claim in claims] == [
        (name, name.encode(), place) for place, name in enumerate(NAMES)
    ]
    assert {(claim.kind, claim.queue, claim.attempt, claim.version) for claim in claims} == {
        (JobKind.SETTLEMENT, "settlement", 0, 1)
    }
    assert all(claim.lease_until_ms - claim.claimed_at_ms == 10_000 for claim in claims)


def test_a_claim_of_many_holds_what_a_claim_of_one_would(backend: Backend) -> None:
    """Both ways to claim the same row differ in version and token alone."""
    backend.storage.jobs.admit(builders.job(queue="a queue"))
    (many,) = backend.storage.jobs.claim_many([("rcpt-1", 0)], builders.lease(lease_ms=1))
    backend.travel(60_000)
    assert isinstance(many, Claim)

    one = builders.claimed(backend.storage.jobs)

    assert (one.kind, one.queue, one.attempt, one.payload) == (many.kind, many.queue, many.attempt, many.payload)
    assert (one.finalized_at, one.version) == (many.finalized_at, many.version + 1)
    assert backend.is_about(one.first_attempt_at_ms, many.first_attempt_at_ms - (60_000 if backend.slack_ms else 0))


def test_each_outcome_is_recorded_as_it_is(backend: Backend) -> None:
    """Ends, retries, burials and lost claims in one batch each do what they do alone, and all are counted."""
    claims = admitted(backend)
    outcomes: list[tuple[Claim, Transition]] = [(claim, SETTLED) for claim in claims]
    outcomes[10] = (claims[10], Reschedule(attempt=1, delay_ms=0, publishes=True))
    outcomes[20] = (claims[20], Bury(record=builders.dead_letter(NAMES[20])))
    outcomes[250] = (claims[5], SETTLED)

    errors = backend.storage.jobs.record_many(outcomes)

    counts = backend.storage.jobs.counts(JobKind.SETTLEMENT)
    assert isinstance(errors[250], StaleClaimError)
    assert [place for place, error in enumerate(errors) if error is not None] == [250]
    assert (counts.finished[FinishedAs.SETTLED], counts.dead, counts.retried) == (COUNT - 3, 1, 1)
    assert counts.in_flight[JobState.LEASED] == 1
    assert balance(backend) == (COUNT, COUNT)


def test_of_two_outcomes_of_one_claim_the_first_counts(backend: Backend) -> None:
    """The order of a batch is kept, whatever goes into which call."""
    claims = admitted(backend)
    again = Reschedule(attempt=1, delay_ms=0, publishes=True)

    errors = backend.storage.jobs.record_many([(claims[0], again), (claims[1], SETTLED), (claims[0], SETTLED)])

    assert [type(error) for error in errors] == [type(None), type(None), StaleClaimError]
    assert backend.storage.jobs.counts(JobKind.SETTLEMENT).retried == 1


@pytest.mark.parametrize("with_entries", [False, True])
def test_entries_of_jobs_that_ended_are_resolved(backend: Backend, with_entries: bool) -> None:
    """Whatever reconciliation keeps of any of them goes with it, settlement or delivery."""
    deliveries = [builders.delivery_job(message_id=f"msg-{number}") for number in range(3)]
    backend.storage.jobs.admit_many([builders.job("a"), *deliveries])
    wanted = [("a", 0), *((job.job_id, 0) for job in deliveries)]
    claims = [
        answer for answer in backend.storage.jobs.claim_many(wanted, builders.lease()) if isinstance(answer, Claim)
    ]
    if with_entries:
        backend.storage.reconciliation.enqueue(builders.pending("a", "settlement"))
        backend.storage.reconciliation.enqueue(builders.indeterminate("msg-1"))

    errors = backend.storage.jobs.record_many([(claim, SETTLED) for claim in claims])

    assert errors == [None] * 4
    assert list(backend.storage.reconciliation.queued_requests()) == []


def test_a_batch_that_comes_again_finds_nothing(backend: Backend) -> None:
    """Every pair of a second claim is refused for its own reason."""
    claims = admitted(backend)
    backend.storage.jobs.record_many([(claim, SETTLED) for claim in claims[:200]])

    answers = backend.storage.jobs.claim_many([(name, 0) for name in NAMES], builders.lease())

    assert answers[:200] == [Refused(why=Refusal.GONE)] * 200
    assert answers[200:] == [Refused(why=Refusal.LEASED)] * 100
