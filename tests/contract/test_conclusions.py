"""What `conclude` and `ending` promise: jobs that end by what their receipts say."""

import pytest

from reliability.errors import DeadLetterConflictError, InvalidInputError, StaleClaimError
from storage.jobs import (
    Admitted,
    Await,
    Bury,
    Claim,
    Finish,
    FinishedAs,
    JobKind,
    Reschedule,
)
from tests.support import builders
from tests.support.backends import Backend

SETTLED = Finish(finished_as=FinishedAs.SETTLED)


def claimed_delivery(backend: Backend) -> Claim:
    """Admit and claim the delivery of message msg-1 to acme."""
    return builders.admitted_and_claimed(backend.storage.jobs, builders.delivery_job())


def test_conclusion_ends_an_awaiting_job(backend: Backend) -> None:
    """A good receipt ends the delivery as confirmed and resolves its entry."""
    claim = claimed_delivery(backend)
    backend.storage.jobs.record(claim, Await(request=builders.pending()))

    concluded = backend.storage.jobs.conclude(claim.job_id, claim.version, Finish(finished_as=FinishedAs.CONFIRMED))

    assert concluded is True
    assert backend.storage.jobs.get(claim.job_id) is None
    assert backend.storage.jobs.ending(claim.job_id) is FinishedAs.CONFIRMED
    assert list(backend.storage.reconciliation.queued_requests()) == []


def test_conclusion_buries_a_refused_delivery(backend: Backend) -> None:
    """A bad receipt ends the delivery as a dead letter with its payload kept."""
    claim = claimed_delivery(backend)
    backend.storage.jobs.record(claim, Await(request=builders.pending()))
    record = builders.dead_letter(claim.job_id)

    assert backend.storage.jobs.conclude(claim.job_id, claim.version, Bury(record=record)) is True

    assert backend.storage.dead_letters.get(claim.job_id) == record
    assert backend.storage.dead_letters.payload(claim.job_id) == b"{}"
    assert backend.storage.jobs.counts(JobKind.DELIVERY).dead == 1


def test_conclusion_takes_the_claim_from_a_running_attempt(backend: Backend) -> None:
    """A receipt that comes while an attempt runs ends the job; the attempt can record nothing any more."""
    claim = claimed_delivery(backend)

    assert backend.storage.jobs.conclude(claim.job_id, claim.version, SETTLED) is True

    with pytest.raises(StaleClaimError):
        backend.storage.jobs.record(claim, Reschedule(attempt=1, delay_ms=0, publishes=True))


def test_conclusion_of_another_version_changes_nothing(backend: Backend) -> None:
    """A receipt judged by an older look at the row, or for no row at all, ends nothing."""
    claim = claimed_delivery(backend)

    assert backend.storage.jobs.conclude(claim.job_id, claim.version - 1, SETTLED) is False
    assert backend.storage.jobs.conclude("nobody", 0, Bury(record=builders.dead_letter("nobody"))) is False

    assert backend.storage.dead_letters.count() == 0
    backend.storage.jobs.record(claim, SETTLED)


def test_conclusion_over_another_record_changes_nothing(backend: Backend) -> None:
    """A second, different dead letter is refused from here too."""
    claim = claimed_delivery(backend)
    backend.storage.dead_letters.append(builders.dead_letter(claim.job_id, attempts=1))

    with pytest.raises(DeadLetterConflictError):
        backend.storage.jobs.conclude(
            claim.job_id, claim.version, Bury(record=builders.dead_letter(claim.job_id, attempts=2))
        )

    assert backend.storage.jobs.get(claim.job_id) is not None


def test_conclusion_about_another_job_is_refused(backend: Backend) -> None:
    """A record has to be about the job it ends."""
    claim = claimed_delivery(backend)

    with pytest.raises(InvalidInputError):
        backend.storage.jobs.conclude(claim.job_id, claim.version, Bury(record=builders.dead_letter("another")))


def test_ending_is_told_while_the_window_remembers(backend: Backend) -> None:
    """How a job ended is forgotten with its dedup mark, and unknown for jobs that have not ended."""
    jobs = backend.storage.jobs
    jobs.record(builders.admitted_and_claimed(jobs), SETTLED)
    jobs.admit(builders.job("running"))

    assert (jobs.ending("rcpt-1"), jobs.ending("running"), jobs.ending("nobody")) == (FinishedAs.SETTLED, None, None)
    backend.travel(backend.options.dedup_ttl_s * 1_000 + 1)
    assert jobs.ending("rcpt-1") is None
    assert jobs.admit(builders.job()) == Admitted()
    assert jobs.ending("rcpt-1") is None
