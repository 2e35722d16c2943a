"""
Many jobs in few script calls: what `admit_many`, `claim_many` and `record_many` send, and what their replies mean.

One call handles a group, each job in it on its own; all groups of a batch go with one exchange. A call costs the server
and the client as much as the work it asks for, so a group takes about half of what its jobs would take one by one.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import Any, Final

from redis.exceptions import RedisError

from reliability import fields
from reliability.errors import StorageUnavailableError
from storage import limits, redis_codec, redis_transitions
from storage.job_ids import reconciliation_keys
from storage.jobs import (
    Admission,
    Claim,
    ClaimCause,
    ClaimResult,
    Finish,
    JobKind,
    Lease,
    NewJob,
    NotDue,
    Refusal,
    Refused,
    Transition,
)
from storage.options import LedgerOptions
from storage.scripts import Argument, Call, Script

#: How many jobs one call handles: the server does nothing else meanwhile, for about two milliseconds.
GROUP: Final = 128

_KINDS: Final = {kind.value.encode(): kind for kind in JobKind}
_CAUSES: Final = {cause.value.encode(): cause for cause in ClaimCause}
_REFUSALS: Final = {why.value.encode(): Refused(why=why) for why in Refusal}

#: What `record_finish_many` replies, having done nothing, while reconciliation keeps entries: name those of the jobs.
KEYS_WANTED: Final = b"keys_wanted"

Outcome = tuple[Claim, Transition]


def admissions(jobs: Iterable[NewJob], options: LedgerOptions) -> Iterator[Call]:
    """Yield the calls that admit the jobs, each as soon as its jobs are there."""
    source = iter(jobs)
    while group := list(islice(source, GROUP)):
        yield _admission(group, options)


def read_admissions(jobs: Sequence[NewJob], replies: Sequence[Any]) -> list[Admission]:
    """
    Read what the calls of `admissions` replied.

    Raises:
        StorageUnavailableError: One of the jobs could not be admitted.

    """
    answers = _in_order(jobs, replies)
    return [
        redis_codec.admission(_sound(answer, "admit", job.job_id)) for job, answer in zip(jobs, answers, strict=True)
    ]


def claims(wanted: Sequence[tuple[str, int]], lease: Lease) -> list[Call]:
    """Return the calls that claim the attempts; each token is the lease's plus its index."""
    for _, attempt in wanted:
        # One look at each instead of a call: the check itself tells what is wrong.
        if type(attempt) is not int or not 0 <= attempt <= fields.U32_MAX:
            limits.check_attempt(attempt)
    return [_claim(wanted[start : start + GROUP], lease, start) for start in range(0, len(wanted), GROUP)]


def read_claims(
    wanted: Sequence[tuple[str, int]], lease: Lease, replies: Sequence[Any]
) -> list[ClaimResult | Exception]:
    """Read what the calls of `claims` replied; a pair's error stands in its place."""
    found: list[ClaimResult | Exception] = []
    for start, reply in zip(range(0, len(wanted), GROUP), replies, strict=True):
        group = wanted[start : start + GROUP]
        if isinstance(reply, RedisError):
            found += [_unavailable("claim", job_id, reply) for job_id, _ in group]
            continue
        now_ms, until_ms, answers = reply
        reader = _ClaimReader(now_ms, until_ms, f"{lease.token}")
        found += [
            reader.read(job_id, attempt, start + place, answer)
            for place, ((job_id, attempt), answer) in enumerate(zip(group, answers, strict=True))
        ]
    return found


def recordings(outcomes: Sequence[Outcome], options: LedgerOptions) -> list[tuple[Call, Sequence[Outcome]]]:
    """Return the calls that record the outcomes in order, each with those it records."""
    calls: list[tuple[Call, Sequence[Outcome]]] = []
    for are_finishes, run in groupby(outcomes, key=lambda outcome: isinstance(outcome[1], Finish)):
        if not are_finishes:
            calls += [(redis_transitions.call_for(*outcome, options), [outcome]) for outcome in run]
            continue
        endings = list(run)
        for start in range(0, len(endings), GROUP):
            group = endings[start : start + GROUP]
            calls.append((_finish(group, [()] * len(group), options), group))
    return calls


def with_keys(group: Sequence[Outcome], options: LedgerOptions) -> Call:
    """Return the call that ends the jobs of a group and resolves what reconciliation keeps of them."""
    keys = [tuple(reconciliation_keys(claim.job_id)) for claim, _ in group]
    width = max(map(len, keys))
    # A job may have fewer than another; resolving one twice changes nothing.
    return _finish(group, [(*own, *own[:1] * (width - len(own))) for own in keys], options)


def read_recordings(
    calls: Sequence[tuple[Call, Sequence[Outcome]]], replies: Sequence[Any], options: LedgerOptions
) -> Iterator[Exception | None]:
    """Yield each outcome's error, None where it was recorded."""
    for (call, group), reply in zip(calls, replies, strict=True):
        answers = (
            reply if call.script is Script.RECORD_FINISH_MANY and isinstance(reply, list) else [reply] * len(group)
        )
        for (claim, _), answer in zip(group, answers, strict=True):
            yield None if answer == b"recorded" else redis_transitions.error_of(claim, answer, options)


class _ClaimReader:
    """Read the answers of one call."""

    def __init__(self, now_ms: int, until_ms: int, token: str) -> None:
        self._now_ms = int(now_ms)
        self._until_ms = int(until_ms)
        self._token = token

    def read(self, job_id: str, attempt: int, place: int, answer: Any) -> ClaimResult | Exception:
        """Return what a pair's answer means."""
        match answer[0]:
            case b"claimed":
                return self._claim(job_id, attempt, place, answer)
            case b"not_due":
                return NotDue(remaining_ms=int(answer[1]))
            case b"refused":
                return _REFUSALS[answer[1]]
            case b"no_payload":
                return redis_codec.no_payload(job_id)
            case _:
                return _unavailable("claim", job_id, None)

    def _claim(self, job_id: str, attempt: int, place: int, answer: Any) -> Claim:
        kind, version, finalized, admitted, first, cause, queue = answer[1].split(b"\0", 6)
        return Claim(
            job_id=job_id,
            kind=_KINDS[kind],
            queue=queue.decode(),
            attempt=attempt,
            version=int(version),
            token=f"{self._token}{place}",
            lease_until_ms=self._until_ms,
            payload=answer[2],
            finalized_at=int(finalized),
            admitted_at_ms=int(admitted),
            first_attempt_at_ms=int(first),
            cause=_CAUSES[cause],
            claimed_at_ms=self._now_ms,
        )


def _admission(group: Sequence[NewJob], options: LedgerOptions) -> Call:
    arguments: list[Argument] = [options.dedup_ttl_s, options.lost_message_slack_ms]
    for job in group:
        arguments += (job.job_id, job.kind.value, job.queue, job.digest, job.payload, job.finalized_at)
    return Call(Script.ADMIT_MANY, group[0].job_id, tuple(arguments))


def _claim(group: Sequence[tuple[str, int]], lease: Lease, start: int) -> Call:
    arguments: list[Argument] = [lease.owner, lease.token, lease.lease_ms, start]
    for pair in group:
        arguments += pair
    return Call(Script.CLAIM_MANY, group[0][0], tuple(arguments))


def _finish(group: Sequence[Outcome], keys: Sequence[tuple[str, ...]], options: LedgerOptions) -> Call:
    arguments: list[Argument] = [options.dedup_ttl_s, options.resolved_ttl_s, len(keys[0])]
    for (claim, transition), own in zip(group, keys, strict=True):
        if isinstance(transition, Finish):
            arguments += (claim.job_id, claim.version, claim.token, transition.finished_as.value, *own)
    return Call(Script.RECORD_FINISH_MANY, group[0][0].job_id, tuple(arguments))


def _in_order(jobs: Sequence[NewJob], replies: Sequence[Any]) -> Iterator[Any]:
    for start, reply in zip(range(0, len(jobs), GROUP), replies, strict=True):
        count = len(jobs[start : start + GROUP])
        yield from [reply] * count if isinstance(reply, RedisError) else reply


def _sound(answer: Any, operation: str, job_id: str) -> bytes:
    if isinstance(answer, RedisError) or answer == b"failed":
        raise _unavailable(operation, job_id, answer if isinstance(answer, RedisError) else None)
    return bytes(answer)


def _unavailable(operation: str, job_id: str, cause: Exception | None) -> StorageUnavailableError:
    error = StorageUnavailableError(operation, job_id)
    error.__cause__ = cause
    return error
