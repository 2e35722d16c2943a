"""
The ledger on Redis: each operation is one script call on the server's own clock.

Values out of range are refused before anything is sent. `redis_codec` reads the replies, `redis_transitions` prepares
the recordings.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import redis
from redis.exceptions import RedisError

from reliability.errors import InvalidInputError, StorageUnavailableError
from storage import dedup_mark, limits, redis_codec, redis_groups, redis_transitions
from storage.job_ids import reconciliation_keys
from storage.jobs import (
    Admission,
    AdmitAndClaimResult,
    Bury,
    Claim,
    ClaimResult,
    Conflict,
    Duplicate,
    DuplicateOf,
    Finish,
    FinishedAs,
    JobKind,
    JobRow,
    JobState,
    Lease,
    LedgerCounts,
    NewJob,
    Transition,
    WakeUp,
    WakeUpCause,
)
from storage.keys import DEFAULT_NAMESPACE, Key, Keys
from storage.options import LedgerOptions
from storage.packed_row import PackedRow
from storage.scripts import Argument, Call, Script, Scripts


class RedisJobStorage:
    """Keep the ledger in one namespace of a Redis or Valkey server."""

    def __init__(
        self, client: redis.Redis, *, namespace: str = DEFAULT_NAMESPACE, options: LedgerOptions | None = None
    ) -> None:
        self._keys = Keys(namespace)
        self._scripts = Scripts(client, self._keys)
        self._options = options or LedgerOptions()

    def admit(self, job: NewJob) -> Admission:
        """Write the row and the dedup mark unless the id is known."""
        if self._options.waitaof_ms:
            return self.admit_many([job])[0]
        limits.check_job(job)
        arguments = redis_groups.admission_arguments(job, self._options)
        return redis_codec.admission(self._run(Script.ADMIT, job.job_id, *arguments))

    def admit_many(self, jobs: Iterable[NewJob]) -> list[Admission]:
        """Admit each job in order, with one exchange; a group is sent as soon as its jobs are there."""
        sent: list[NewJob] = []
        calls = redis_groups.admissions(_checked(jobs, sent), self._options)
        wait = ("WAITAOF", 1, 0, self._options.waitaof_ms) if self._options.waitaof_ms else None
        replies = self._scripts.run_as_made(calls, *([wait] if wait else []))
        if sent and wait:
            _check_on_disk(replies.pop(), sent[0].job_id)
        return redis_groups.read_admissions(sent, replies)

    def admit_and_claim(self, job: NewJob, lease: Lease) -> AdmitAndClaimResult:
        """Admit the job and claim its attempt 0 in one step; a known unfinished job is only claimed."""
        limits.check_job(job)
        limits.check_lease(lease)
        admission = redis_groups.admission_arguments(job, self._options)
        reply = self._run(Script.ADMIT_AND_CLAIM, job.job_id, *admission, lease.owner, lease.token, lease.lease_ms)
        match reply[1]:
            case [b"conflict"]:
                return Conflict()
            case [(b"finished" | b"dead") as known]:
                return Duplicate(of=DuplicateOf(known.decode()))
            case _:
                return redis_codec.claim_result(job.job_id, reply)

    def claim(self, job_id: str, attempt: int, lease: Lease) -> ClaimResult:
        """Take the lease of exactly this attempt if it is due and not leased."""
        limits.check_lease(lease)
        limits.check_attempt(attempt)
        arguments = (job_id, attempt, lease.owner, lease.token, lease.lease_ms)
        return redis_codec.claim_result(job_id, self._run(Script.CLAIM, job_id, *arguments))

    def claim_many(self, wanted: Sequence[tuple[str, int]], lease: Lease) -> list[ClaimResult | Exception]:
        """Claim up to 1,024 attempts with one exchange; a pair's error is returned in its place."""
        limits.check_batch(wanted)
        limits.check_lease(lease)
        replies = self._scripts.run_many(redis_groups.claims(wanted, lease))
        return redis_groups.read_claims(wanted, replies)

    def finalized_at_many(self, job_ids: Sequence[str]) -> list[int | None]:
        """Return when each job was finalised, with one exchange."""
        limits.check_batch(job_ids)
        if not job_ids:
            return []
        keys = (self._keys.of(Key.JOB, job_id) for job_id in job_ids)
        return redis_codec.finalized(job_ids, self._scripts.command("finalized_at_many", job_ids[0], "MGET", *keys))

    def renew(self, claims: Sequence[Claim], lease_ms: int) -> list[bool]:
        """Extend each lease that still holds."""
        limits.check_batch(claims)
        limits.check_lease_ms(lease_ms)
        if not claims:
            return []
        triples = (part for claim in claims for part in (claim.job_id, claim.version, claim.token))
        reply = self._scripts.run(Call(Script.RENEW, claims[0].job_id, (lease_ms, *triples)))
        return [extended == 1 for extended in reply]

    def resume(self, claim: Claim, lease_ms: int) -> bool:
        """Take back a lease that ran out, if nobody has claimed the job since."""
        limits.check_lease_ms(lease_ms)
        return bool(self._run(Script.RESUME, claim.job_id, claim.job_id, claim.version, claim.token, lease_ms))

    def record(self, claim: Claim, transition: Transition) -> None:
        """Apply the transition if the claim still holds."""
        limits.check_transition(claim, transition)
        reply = self._scripts.run(redis_transitions.call_for(claim, transition, self._options))
        if error := redis_transitions.error_of(claim, reply, self._options):
            raise error

    def record_many(self, outcomes: Sequence[tuple[Claim, Transition]]) -> list[Exception | None]:
        """Record each pair with one exchange; an entry's error is returned in its place."""
        limits.check_batch(outcomes)
        results: list[Exception | None] = [_refusal(claim, transition) for claim, transition in outcomes]
        places = [place for place, refused in enumerate(results) if refused is None]
        calls = redis_groups.recordings([outcomes[place] for place in places], self._options)
        replies = self._scripts.run_many([call for call, _ in calls])
        self._resolve_too(calls, replies)
        errors = redis_groups.read_recordings(calls, replies, self._options)
        for place, error in zip(places, errors, strict=True):
            results[place] = error
        return results

    def due(self, limit: int) -> list[WakeUp]:
        """Take up to `limit` wake-ups."""
        limits.check_limit(limit)
        return redis_codec.wake_ups(self._run(Script.DUE, "the ledger", limit, self._options.lost_message_slack_ms))

    def next_mark(self, queue: str, period_ms: int) -> int | None:
        """Return the server's time if this caller is to publish the queue's next mark."""
        limits.check_range("period_ms", period_ms, 1, limits.MAX_DELAY_MS)
        reply = self._scripts.run(Call(Script.NEXT_MARK, queue, (queue, period_ms)))
        return None if reply is None else int(reply)

    def mark_consumed(self, queue: str, published_at_ms: int) -> None:
        """Raise the queue's watermark; never lower it."""
        limits.check_instant_ms("published_at_ms", published_at_ms)
        self._scripts.run(Call(Script.MARK_CONSUMED, queue, (queue, published_at_ms)))

    def replay(self, job_id: str) -> WakeUp | None:
        """Turn a dead letter with a kept payload back into a row at attempt 0."""
        reply = self._run(Script.REPLAY, job_id, job_id, self._options.lost_message_slack_ms)
        if reply is None:
            return None
        kind, queue = JobKind(reply[0].decode()), reply[1].decode()
        return WakeUp(job_id=job_id, kind=kind, queue=queue, attempt=0, cause=WakeUpCause.PARKED)

    def hold(self, job_id: str) -> bool:
        """Stop the job at its next claim."""
        return bool(self._run(Script.HOLD, job_id, job_id))

    def release(self, job_id: str) -> bool:
        """Make a held job due now."""
        return bool(self._run(Script.RELEASE, job_id, job_id))

    def cancel(self, job_id: str) -> bool:
        """End a job that is not leased as cancelled."""
        ttls = (self._options.dedup_ttl_s, self._options.resolved_ttl_s)
        return bool(self._run(Script.CANCEL, job_id, job_id, *ttls, *reconciliation_keys(job_id)))

    def conclude(self, job_id: str, version: int, transition: Finish | Bury) -> bool:
        """End the job by what its receipt says if the row still has this version."""
        limits.check_conclusion(job_id, transition)
        reply = self._scripts.run(redis_transitions.conclusion_for(job_id, version, transition, self._options))
        return redis_transitions.is_concluded(job_id, reply)

    def ending(self, job_id: str) -> FinishedAs | None:
        """Return how a job ended well, as long as the dedup window remembers it."""
        mark = self._scripts.command("ending", job_id, "GET", self._keys.of(Key.SEEN, job_id))
        return dedup_mark.ending_of(mark) if mark else None

    def get(self, job_id: str) -> JobRow | None:
        """Return the row, or None."""
        packed = self._scripts.command("get", job_id, "GET", self._keys.of(Key.JOB, job_id))
        return None if packed is None else PackedRow.read(job_id, packed).shown(job_id)

    def rows(self, state: JobState, limit: int) -> list[JobRow]:
        """Return up to `limit` rows of a state in the order of its index."""
        limits.check_limit(limit)
        return redis_codec.rows_in_order(self._run(Script.ROWS, state.value, state.value, limit), limit)

    def counts(self, kind: JobKind) -> LedgerCounts:
        """Count the kind's jobs at one instant."""
        key = self._keys.of(Key.COUNTS, kind.value)
        return redis_codec.counts(self._scripts.command("counts", kind.value, "HGETALL", key))

    def now_ms(self) -> int:
        """Return the server's clock, Unix milliseconds."""
        seconds, micros = self._scripts.command("now_ms", "the clock", "TIME")
        return int(seconds) * 1_000 + int(micros) // 1_000

    def check_writable(self) -> None:
        """Ask the server to overwrite a key that never exists: refused like every write, and without effect if not."""
        self._scripts.command("check_writable", "the ledger", "SET", self._keys.of(Key.WRITABLE), b"1", "XX")

    def _resolve_too(self, calls: Sequence[tuple[Call, Sequence[redis_groups.Outcome]]], replies: list[Any]) -> None:
        """Repeat what needs the keys of reconciliation entries: making them takes longer than all the rest."""
        wanted = [place for place, reply in enumerate(replies) if reply == redis_groups.KEYS_WANTED]
        again = [redis_groups.with_keys(calls[place][1], self._options) for place in wanted]
        for place, reply in zip(wanted, self._scripts.run_many(again), strict=True):
            replies[place] = reply

    def _run(self, script: Script, subject: str, *arguments: Argument) -> Any:
        return self._scripts.run(Call(script, subject, arguments))


def _refusal(claim: Claim, transition: Transition) -> InvalidInputError | None:
    try:
        limits.check_transition(claim, transition)
    except InvalidInputError as error:
        return error
    return None


def _checked(jobs: Iterable[NewJob], checked: list[NewJob]) -> Iterator[NewJob]:
    for job in jobs:
        limits.check_job(job)
        checked.append(job)
        yield job


def _check_on_disk(reply: Any, key: str) -> None:
    # The row is written but may not survive a power cut; the producer asks again and then finds a duplicate.
    if isinstance(reply, RedisError) or reply[0] < 1:
        cause = reply if isinstance(reply, RedisError) else None
        raise StorageUnavailableError("admit with waitaof", key) from cause
