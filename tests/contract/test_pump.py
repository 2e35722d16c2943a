"""What `due`, `next_mark` and `mark_consumed` promise."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from reliability.errors import InvalidInputError, StaleClaimError
from storage.jobs import (
    ClaimCause,
    Finish,
    FinishedAs,
    JobKind,
    JobState,
    Reschedule,
    WakeUp,
    WakeUpCause,
)
from storage.options import LedgerOptions
from tests.contract.conftest import MakeBackend
from tests.support import builders
from tests.support.backends import Backend

SLACK_MS = LedgerOptions().lost_message_slack_ms


def wake_up(cause: WakeUpCause, attempt: int = 0, job_id: str = "rcpt-1", *, alone: bool = False) -> WakeUp:
    """Return the wake-up of a settlement."""
    return WakeUp(job_id=job_id, kind=JobKind.SETTLEMENT, queue="settlement", attempt=attempt, cause=cause, alone=alone)


def lose_message(backend: Backend, after_ms: int) -> list[WakeUp]:
    """Let time pass and the queue move past everything published by then; return what is taken."""
    backend.travel(after_ms)
    backend.storage.jobs.mark_consumed("settlement", backend.now_ms())
    return backend.storage.jobs.due(10)


def test_outstanding_row_in_a_long_queue_is_left_alone(backend: Backend) -> None:
    """Time alone never makes an outstanding row due: its message may be waiting its turn."""
    backend.storage.jobs.admit(builders.job())
    backend.travel(86_400_000)

    assert backend.storage.jobs.due(10) == []


def test_expired_lease_is_taken_at_once(backend: Backend) -> None:
    """A row whose worker is gone is due now, outstanding, and its next claim says why."""
    backend.storage.jobs.admit(builders.job())
    stale = builders.claimed(backend.storage.jobs, by=builders.lease(lease_ms=1_000))
    backend.travel(60_000)
    before_ms = backend.now_ms()

    taken = backend.storage.jobs.due(10)

    row = backend.storage.jobs.get("rcpt-1")
    assert taken == [wake_up(WakeUpCause.LEASE_EXPIRED)]
    assert row is not None
    assert (row.state, row.owner, row.lease_until_ms) == (JobState.OUTSTANDING, None, None)
    assert backend.is_about(row.due_at_ms, before_ms)
    with pytest.raises(StaleClaimError):
        backend.storage.jobs.record(stale, Finish(finished_as=FinishedAs.SETTLED))
    assert builders.claimed(backend.storage.jobs).cause is ClaimCause.LEASE_EXPIRED


def test_job_whose_worker_died_says_so_from_then_on(backend: Backend) -> None:
    """A row whose lease expired, found by the pump or by a claim, is woken alone later, its neighbour is not."""
    jobs = backend.storage.jobs
    for name in ("pumped", "claimed"):
        builders.admitted_and_claimed(jobs, builders.job(name), builders.lease(lease_ms=1_000))
    other = builders.admitted_and_claimed(jobs, builders.job("other"))
    jobs.record(other, Reschedule(attempt=1, delay_ms=0, publishes=False))
    backend.travel(2_000)
    claim = builders.claimed(jobs, "claimed")
    first = {wake_up.job_id: wake_up.alone for wake_up in jobs.due(10)}
    for held in (claim, builders.claimed(jobs, "pumped")):
        jobs.record(held, Reschedule(attempt=1, delay_ms=0, publishes=False))

    later = {wake_up.job_id: wake_up.alone for wake_up in jobs.due(10)}

    assert first == {"pumped": False, "other": False}
    assert later == {"pumped": True, "claimed": True}


def test_valid_lease_is_left_alone(backend: Backend) -> None:
    """A row whose worker still has time is not woken."""
    builders.admitted_and_claimed(backend.storage.jobs, by=builders.lease(lease_ms=60_000))
    backend.travel(30_000)

    assert backend.storage.jobs.due(10) == []


def test_parked_row_is_taken_when_due(backend: Backend) -> None:
    """A parked row is taken once its time has come, not before, and once."""
    claim = builders.admitted_and_claimed(backend.storage.jobs)
    backend.storage.jobs.record(claim, Reschedule(attempt=1, delay_ms=60_000, publishes=False))

    early = backend.storage.jobs.due(10)
    backend.travel(60_000)
    in_time = backend.storage.jobs.due(10)
    again = backend.storage.jobs.due(10)

    assert (early, in_time, again) == ([], [wake_up(WakeUpCause.PARKED, attempt=1)], [])


def test_lost_message_is_found_by_the_watermark(backend: Backend) -> None:
    """A row is lost once its queue has moved past its publish time and the slack."""
    backend.storage.jobs.admit(builders.job())

    taken = lose_message(backend, SLACK_MS)

    row = backend.storage.jobs.get("rcpt-1")
    assert taken == [wake_up(WakeUpCause.MESSAGE_LOST)]
    assert row is not None
    assert (row.state, row.wakeups) == (JobState.OUTSTANDING, 1)
    assert builders.claimed(backend.storage.jobs).cause is ClaimCause.DUE


def test_watermark_within_the_slack_proves_nothing(make_backend: MakeBackend) -> None:
    """A message that may only be out of order is not lost yet."""
    backend = make_backend(LedgerOptions(lost_message_slack_ms=60_000))
    backend.storage.jobs.admit(builders.job())

    assert lose_message(backend, 30_000) == []


def test_watermark_of_another_queue_proves_nothing(backend: Backend) -> None:
    """Only the row's own queue tells about its message."""
    backend.storage.jobs.admit(builders.job())
    backend.travel(3_600_000)
    backend.storage.jobs.mark_consumed("delivery", backend.now_ms())

    assert backend.storage.jobs.due(10) == []


def test_countdown_counts_from_its_due_time(backend: Backend) -> None:
    """A message with a countdown is not lost before it is due, however far the queue has moved."""
    claim = builders.admitted_and_claimed(backend.storage.jobs)
    backend.storage.jobs.record(claim, Reschedule(attempt=1, delay_ms=60_000, publishes=True))

    assert lose_message(backend, 60_000 - 1_000) == []
    assert lose_message(backend, 1_000 + SLACK_MS) == [wake_up(WakeUpCause.MESSAGE_LOST, attempt=1)]


def test_slack_doubles_with_each_wake_up(make_backend: MakeBackend) -> None:
    """Each wake-up of a row doubles how far the queue has to be past it the next time."""
    backend = make_backend(LedgerOptions(lost_message_slack_ms=100_000))
    backend.storage.jobs.admit(builders.job())

    first = lose_message(backend, 100_000)
    too_early = lose_message(backend, 150_000)
    second = lose_message(backend, 50_000)

    row = backend.storage.jobs.get("rcpt-1")
    assert (len(first), too_early, len(second)) == (1, [], 1)
    assert row is not None
    assert row.wakeups == 2


def test_slack_stops_doubling(make_backend: MakeBackend) -> None:
    """However often a message was lost, the next loss is found after 32 slacks."""
    backend = make_backend(LedgerOptions(lost_message_slack_ms=100_000))
    backend.storage.jobs.admit(builders.job())
    for _ in range(13):
        assert len(lose_message(backend, 100_000 * 32)) == 1

    assert len(lose_message(backend, 100_000 * 32)) == 1


def test_a_message_that_was_heard_ends_the_row_of_lost_ones(make_backend: MakeBackend) -> None:
    """A worker that dies over it is no loss of a message: the next one is waited for no longer than the first."""
    backend = make_backend(LedgerOptions(lost_message_slack_ms=100_000))
    backend.storage.jobs.admit(builders.job())
    for _ in range(3):
        lose_message(backend, 100_000 * 32)
    builders.claimed(backend.storage.jobs, by=builders.lease(lease_ms=1_000))
    backend.travel(2_000)
    assert backend.storage.jobs.due(10) == [wake_up(WakeUpCause.LEASE_EXPIRED)]

    assert lose_message(backend, 100_000) == [wake_up(WakeUpCause.MESSAGE_LOST, alone=True)]


def test_new_attempt_begins_without_wake_ups(backend: Backend) -> None:
    """What one attempt's messages went through does not slow the next one's."""
    backend.storage.jobs.admit(builders.job())
    lose_message(backend, SLACK_MS)
    claim = builders.claimed(backend.storage.jobs)

    backend.storage.jobs.record(claim, Reschedule(attempt=1, delay_ms=0, publishes=True))

    row = backend.storage.jobs.get("rcpt-1")
    assert row is not None
    assert row.wakeups == 0


def test_taken_row_whose_publish_failed_is_found_again(backend: Backend) -> None:
    """A pump that crashed before it published owes nothing: the row is a lost message later."""
    claim = builders.admitted_and_claimed(backend.storage.jobs)
    backend.storage.jobs.record(claim, Reschedule(attempt=1, delay_ms=0, publishes=False))
    backend.storage.jobs.due(10)

    assert lose_message(backend, SLACK_MS) == [wake_up(WakeUpCause.MESSAGE_LOST, attempt=1)]


def test_limit_bounds_what_is_taken(backend: Backend) -> None:
    """A pump takes at most `limit` rows, the rest next time: expired leases first, then parked ones, then lost ones."""
    jobs = backend.storage.jobs
    jobs.admit(builders.job("lost"))
    builders.admitted_and_claimed(jobs, builders.job("expired"), builders.lease(lease_ms=1))
    parked = builders.admitted_and_claimed(jobs, builders.job("parked"))
    jobs.record(parked, Reschedule(attempt=1, delay_ms=0, publishes=False))
    backend.travel(SLACK_MS)
    jobs.mark_consumed("settlement", backend.now_ms())

    taken = [[wake.job_id for wake in jobs.due(1)] for _ in range(4)]

    assert taken == [["expired"], ["parked"], ["lost"], []]


@pytest.mark.parametrize("limit", [0, -1, 100_001])
def test_limit_out_of_range_is_refused(backend: Backend, limit: int) -> None:
    """A pump that asks for nothing or for everything is told so."""
    with pytest.raises(InvalidInputError):
        backend.storage.jobs.due(limit)


def test_ten_pumps_take_each_row_once(backend: Backend) -> None:
    """Of ten pumps that run at once exactly one publishes each row."""
    jobs = backend.storage.jobs
    claims = [builders.admitted_and_claimed(jobs, builders.job(f"job-{number}")) for number in range(100)]
    jobs.record_many([(claim, Reschedule(attempt=1, delay_ms=0, publishes=False)) for claim in claims])

    with ThreadPoolExecutor(10) as threads:
        taken = [wake.job_id for batch in threads.map(lambda _: jobs.due(30), range(10)) for wake in batch]

    assert sorted(taken) == sorted(claim.job_id for claim in claims)


def test_one_caller_per_period_publishes_the_mark(backend: Backend) -> None:
    """Within a period one caller per queue gets the time; after it the next one does."""
    jobs = backend.storage.jobs
    before_ms = backend.now_ms()

    first, second, other_queue = (jobs.next_mark(queue, 60_000) for queue in ("a", "a", "b"))
    backend.travel(60_001)
    later = jobs.next_mark("a", 60_000)

    assert first is not None
    assert backend.is_about(first, before_ms)
    assert second is None
    assert other_queue is not None
    assert later is not None


def test_one_of_many_callers_publishes_the_mark(backend: Backend) -> None:
    """Of 16 pumps that ask at once exactly one publishes the mark."""
    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(lambda _: backend.storage.jobs.next_mark("settlement", 60_000), range(16)))

    assert sum(answer is not None for answer in answers) == 1


def test_watermark_never_moves_back(backend: Backend) -> None:
    """A mark that arrives late does not make the queue look younger."""
    backend.storage.jobs.admit(builders.job())
    backend.travel(SLACK_MS)
    backend.storage.jobs.mark_consumed("settlement", backend.now_ms())

    backend.storage.jobs.mark_consumed("settlement", backend.now_ms() - 3_600_000)

    assert len(backend.storage.jobs.due(10)) == 1


def test_mark_of_the_future_calls_nothing_lost(backend: Backend) -> None:
    """A mark beyond the store's time counts as now, so fresh messages are not taken for lost."""
    backend.storage.jobs.mark_consumed("settlement", backend.now_ms() + 86_400_000)

    backend.storage.jobs.admit(builders.job())

    assert backend.storage.jobs.due(10) == []


def test_mark_out_of_range_is_refused(backend: Backend) -> None:
    """Periods and instants are checked."""
    with pytest.raises(InvalidInputError):
        backend.storage.jobs.next_mark("settlement", 0)
    with pytest.raises(InvalidInputError):
        backend.storage.jobs.mark_consumed("settlement", -1)
