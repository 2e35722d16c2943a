"""Whatever is done to a ledger in whatever order, it answers as the model says and every job is in one place."""

import itertools

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from reliability.errors import StaleClaimError
from storage.job_ids import delivery_job_id
from storage.jobs import (
    Admitted,
    Await,
    Bury,
    Claim,
    Conflict,
    Finish,
    FinishedAs,
    JobKind,
    JobState,
    Reschedule,
    Transition,
)
from storage.options import LedgerOptions
from tests.contract.ledger_model import DEDUP_MIN, LEASE_MIN, MINUTE_MS, SLACK_MIN, Model
from tests.support import backends, builders

MESSAGES = ("m1", "m2", "m3")
OPTIONS = LedgerOptions(dedup_ttl_s=int(DEDUP_MIN * 60), lost_message_slack_ms=SLACK_MIN * MINUTE_MS)
RUNS = settings(
    max_examples=60,
    stateful_step_count=50,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),  # how fast a server answers says nothing about the ledger
)

messages = st.sampled_from(MESSAGES)
payloads = st.sampled_from([b"a", b"b"])
attempts = st.integers(0, 2)


class LedgerMachine(RuleBasedStateMachine):
    """Drive one back end and the model side by side."""

    claims = Bundle("claims")
    backend: backends.Backend

    def __init__(self) -> None:
        super().__init__()
        self.backend = self.make()
        self.jobs = self.backend.storage.jobs
        self.model = Model()

    def make(self) -> backends.Backend:
        """Return an empty back end; each back end's test says how."""
        raise NotImplementedError

    @rule(message=messages, payload=payloads)
    def admit(self, message: str, payload: bytes) -> None:
        """Admit, which depends on what is known of the id."""
        answer = self.jobs.admit(builders.delivery_job(message_id=message, payload=payload))

        expected = self.model.admit(job_id(message), payload)
        shown = "admitted" if answer == Admitted() else "conflicts" if answer == Conflict() else "duplicates"
        assert shown == expected

    @rule(target=claims, message=messages, attempt=attempts)
    def claim(self, message: str, attempt: int) -> Claim | None:
        """Claim, which takes only a due, free row at exactly the attempt."""
        lease = builders.lease(lease_ms=LEASE_MIN * MINUTE_MS)

        answer = self.jobs.claim(job_id(message), attempt, lease)

        expected = self.model.claim(job_id(message), attempt, lease.token)
        assert (answer.cause if isinstance(answer, Claim) else None) == expected
        return answer if isinstance(answer, Claim) else None

    @rule(claim=claims)
    def renew(self, claim: Claim | None) -> None:
        """Extend a lease that holds, and no other."""
        if claim is None:
            return
        holds = self.model.holds(claim.job_id, claim.token)
        assert self.jobs.renew([claim], LEASE_MIN * MINUTE_MS) == [holds]
        if holds:
            self.model.jobs[claim.job_id].lease_until = self.model.now + LEASE_MIN

    @rule(claim=claims)
    def resume(self, claim: Claim | None) -> None:
        """Take back a claim whose lease may have run out, if nobody claimed or recorded the job since."""
        if claim is not None:
            resumed = self.jobs.resume(claim, LEASE_MIN * MINUTE_MS)
            assert resumed is self.model.resume(claim.job_id, claim.token)

    @rule(claim=claims, spends=st.booleans(), minutes=st.sampled_from([0, 1, 5]), publishes=st.booleans())
    def reschedule(self, claim: Claim | None, spends: bool, minutes: int, publishes: bool) -> None:
        """Retry or defer, to be due after the delay."""
        if claim is None:
            return
        attempt = claim.attempt + spends
        plan = Reschedule(attempt=attempt, delay_ms=minutes * MINUTE_MS, publishes=publishes)
        if self._record(claim, plan):
            state = JobState.OUTSTANDING if publishes else JobState.PARKED
            self.model.reschedule(claim.job_id, attempt, minutes, state, claim.cause)

    @rule(claim=claims)
    def finish(self, claim: Claim | None) -> None:
        """Finish the job: it is gone."""
        if claim is not None and self._record(claim, Finish(finished_as=FinishedAs.SETTLED)):
            self.model.end(claim.job_id, "settled")

    @rule(claim=claims)
    def bury(self, claim: Claim | None) -> None:
        """Let the job die: it is gone from the ledger and kept as a dead letter."""
        if claim is not None and self._record(claim, Bury(record=builders.dead_letter(claim.job_id))):
            self.model.end(claim.job_id, "dead")

    @rule(claim=claims)
    def wait(self, claim: Claim | None) -> None:
        """Let the job wait for its receipt."""
        message = claim.job_id.rpartition(":")[2] if claim else ""
        if claim is not None and self._record(claim, Await(request=builders.pending(message))):
            self.model.wait(claim.job_id)

    @rule(message=messages)
    def escalate(self, message: str) -> None:
        """Escalate the entry: a job that waits for it becomes due."""
        request = builders.pending(message)
        self.backend.storage.reconciliation.escalate(request.idempotency_key, builders.indeterminate(message))
        self.model.wake_awaiting(job_id(message))

    @rule(message=messages)
    def resolve(self, message: str) -> None:
        """Resolve the entry by hand: a job that waits for it becomes due."""
        self.backend.storage.reconciliation.resolve(builders.pending(message).idempotency_key)
        self.model.wake_awaiting(job_id(message))

    @rule(message=messages, version=st.integers(1, 4))
    def conclude(self, message: str, version: int) -> None:
        """End a job by its receipt if it has the version the receipt was judged by, running or not."""
        job = self.model.jobs.get(job_id(message))
        expected = job is not None and job.version == version

        assert self.jobs.conclude(job_id(message), version, Finish(finished_as=FinishedAs.CONFIRMED)) is expected
        if expected:
            self.model.end(job_id(message), "confirmed")

    @rule(minutes=st.sampled_from([1, 1, 2, 4]))
    def travel(self, minutes: int) -> None:
        """Let time pass."""
        self.backend.travel(minutes * MINUTE_MS)
        self.model.now += minutes

    @rule()
    def consume_mark(self) -> None:
        """Let the queue move past everything published so far."""
        self.jobs.mark_consumed("delivery", self.backend.now_ms())
        self.model.watermark = self.model.now

    @rule()
    def due(self) -> None:
        """Take exactly the rows that need a message."""
        assert {wake.job_id for wake in self.jobs.due(10)} == self.model.due()

    @rule(message=messages)
    def hold(self, message: str) -> None:
        """Stop a job."""
        assert self.jobs.hold(job_id(message)) is self.model.hold_job(job_id(message))

    @rule(message=messages)
    def release(self, message: str) -> None:
        """Let a job go on."""
        assert self.jobs.release(job_id(message)) is self.model.release(job_id(message))

    @rule(message=messages)
    def cancel(self, message: str) -> None:
        """End a job that does not run."""
        assert self.jobs.cancel(job_id(message)) is self.model.cancel(job_id(message))

    @rule(message=messages)
    def replay(self, message: str) -> None:
        """Bring a dead job back."""
        assert (self.jobs.replay(job_id(message)) is not None) is self.model.replay(job_id(message))

    @rule(message=messages)
    def clear(self, message: str) -> None:
        """Forget a dead job."""
        assert self.backend.storage.dead_letters.clear(job_id(message)) is self.model.clear(job_id(message))

    @invariant()
    def every_job_is_in_one_place(self) -> None:
        """Counters, rows and indexes agree with the model, and admitted is what ended and what is in flight."""
        counts = self.jobs.counts(JobKind.DELIVERY)
        indexed = {state: len(self.jobs.rows(state, 10)) for state in JobState}

        assert counts.in_flight == indexed == self.model.in_flight()
        assert counts.admitted == sum(counts.finished.values()) + counts.dead + sum(counts.in_flight.values())
        assert {
            name: self.model.counts[name] for name in ("admitted", "duplicates", "conflicts", "dead", "retried")
        } == {
            "admitted": counts.admitted,
            "duplicates": counts.duplicates,
            "conflicts": counts.conflicts,
            "dead": counts.dead,
            "retried": counts.retried,
        }

    @invariant()
    def rows_are_as_the_model_says(self) -> None:
        """Each row has the model's attempt, version, state and wake-ups."""
        for message in MESSAGES:
            row, job = self.jobs.get(job_id(message)), self.model.jobs.get(job_id(message))
            assert (row is None) is (job is None)
            if row and job:
                assert (row.state, row.attempt, row.version, row.wakeups) == (
                    job.state,
                    job.attempt,
                    job.version,
                    job.wakeups,
                )

    @invariant()
    def whoever_waits_is_kept_in_reconciliation(self) -> None:
        """No job waits for a receipt that nobody would escalate."""
        queued = {
            request.message_id for request in self.backend.storage.reconciliation.stale_pending(builders.CREATED_AT)
        }
        waiting = {name for name in MESSAGES if self._state_of(name) is JobState.AWAITING}

        assert waiting <= queued

    def _state_of(self, message: str) -> JobState | None:
        job = self.model.jobs.get(job_id(message))
        return job.state if job else None

    def _record(self, claim: Claim, transition: Transition) -> bool:
        holds = self.model.holds(claim.job_id, claim.token)
        try:
            self.jobs.record(claim, transition)
        except StaleClaimError:
            assert not holds
            return False
        assert holds
        return True


def job_id(message: str) -> str:
    """Return the id of a message's delivery to acme."""
    return delivery_job_id("acme", message)


def test_memory_ledger_follows_the_model() -> None:
    """The memory ledger answers every sequence of operations as the model does."""

    class MemoryLedgerMachine(LedgerMachine):
        def make(self) -> backends.Backend:
            return backends.memory(OPTIONS)

    run_state_machine_as_test(MemoryLedgerMachine, settings=RUNS)


@pytest.mark.server
def test_redis_ledger_follows_the_model(redis_url: str) -> None:
    """The Redis ledger answers every sequence of operations as the model does."""
    numbers = itertools.count()

    class RedisLedgerMachine(LedgerMachine):
        def make(self) -> backends.Backend:
            return backends.on_redis(redis_url, OPTIONS, f"machine{next(numbers)}:")

    run_state_machine_as_test(RedisLedgerMachine, settings=RUNS)
