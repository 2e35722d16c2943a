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
    ClaimResult,
    Finish,
    Lease,
    NewJob,
    Transition,
)
from storage.options import LedgerOptions
from storage.scripts import Argument, Call, Script

#: How many jobs one call handles: the server does nothing else meanwhile, for about two milliseconds.
GROUP: Final = 128

#: What `record_finish_many` replies, having done nothing, while reconciliation keeps entries: name those of the jobs.
KEYS_WANTED: Final = b"keys_wanted"

#: What a script for many jobs answers to one that met an error.
FAILED: Final = b"failed"

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


def admission_arguments(job: NewJob, options: LedgerOptions) -> tuple[Argument, ...]:
    """Return what the scripts that admit one job begin with."""
    return (*_content(job), options.dedup_ttl_s, options.lost_message_slack_ms)


def claims(wanted: Sequence[tuple[str, int]], lease: Lease) -> list[Call]:
    """Return the calls that claim the attempts, all with one token: a row holds it with a version of its own."""
    for _, attempt in wanted:
        # One look at each instead of a call: the check itself tells what is wrong.
        if type(attempt) is not int or not 0 <= attempt <= fields.U32_MAX:
            limits.check_attempt(attempt)
    return [_claim(wanted[start : start + GROUP], lease) for start in range(0, len(wanted), GROUP)]


def read_claims(wanted: Sequence[tuple[str, int]], replies: Sequence[Any]) -> list[ClaimResult | Exception]:
    """Read what the calls of `claims` replied; a pair's error stands in its place."""
    found: list[ClaimResult | Exception] = []
    for start, reply in zip(range(0, len(wanted), GROUP), replies, strict=True):
        group = wanted[start : start + GROUP]
        if isinstance(reply, RedisError):
            found += [_unavailable("claim", job_id, reply) for job_id, _ in group]
            continue
        now_ms, answers = reply
        found += [
            _unavailable("claim", job_id, None)
            if answer == FAILED
            else redis_codec.claim_answer(job_id, now_ms, answer)
            for (job_id, _), answer in zip(group, answers, strict=True)
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


def _admission(group: Sequence[NewJob], options: LedgerOptions) -> Call:
    if len(group) == 1:
        # The script for one job asks the server for half of what the other takes to get going.
        return Call(Script.ADMIT, group[0].job_id, admission_arguments(group[0], options))
    arguments: list[Argument] = [options.dedup_ttl_s, options.lost_message_slack_ms]
    for job in group:
        arguments += _content(job)
    return Call(Script.ADMIT_MANY, group[0].job_id, tuple(arguments))


def _content(job: NewJob) -> tuple[Argument, ...]:
    return (job.job_id, job.kind.value, job.queue, job.digest, job.payload, job.finalized_at)


def _claim(group: Sequence[tuple[str, int]], lease: Lease) -> Call:
    arguments: list[Argument] = [lease.owner, lease.token, lease.lease_ms]
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
        yield from reply if isinstance(reply, list) else [reply] * count


def _sound(answer: Any, operation: str, job_id: str) -> bytes:
    if isinstance(answer, RedisError) or answer == FAILED:
        raise _unavailable(operation, job_id, answer if isinstance(answer, RedisError) else None)
    return bytes(answer)


def _unavailable(operation: str, job_id: str, cause: Exception | None) -> StorageUnavailableError:
    error = StorageUnavailableError(operation, job_id)
    error.__cause__ = cause
    return error
