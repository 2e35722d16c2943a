"""Rows that somebody changed behind the stores: reported, never skipped, and never in the way of others."""

from collections.abc import Callable
from typing import Any

import pytest

from reliability.errors import InvalidRecordError, StorageUnavailableError
from storage import bundle
from storage.jobs import Claim, Finish, FinishedAs, JobKind, JobState, Reschedule
from storage.keys import Key, Keys
from tests.support import backends, builders

pytestmark = pytest.mark.server

KEYS = Keys(backends.NAMESPACE)


def test_row_without_its_payload_is_reported(stores: bundle.Storage, raw: Any) -> None:
    """A row whose payload somebody deleted is an invalid record, and stays unclaimed."""
    stores.jobs.admit(builders.job())
    raw.delete(KEYS.of(Key.PAYLOAD, "rcpt-1"))

    with pytest.raises(InvalidRecordError):
        stores.jobs.claim("rcpt-1", 0, builders.lease())

    assert [row.job_id for row in stores.jobs.rows(JobState.OUTSTANDING, 1)] == ["rcpt-1"]
    assert stores.jobs.cancel("rcpt-1") is True


def test_row_without_its_payload_costs_no_other_its_claim(stores: bundle.Storage, raw: Any) -> None:
    """In a batch the damaged row's error stands in its place."""
    stores.jobs.admit_many([builders.job("damaged"), builders.job("good")])
    raw.delete(KEYS.of(Key.PAYLOAD, "damaged"))

    damaged, good = stores.jobs.claim_many([("damaged", 0), ("good", 0)], builders.lease())

    assert isinstance(damaged, InvalidRecordError)
    assert isinstance(good, Claim)


TAMPERINGS: dict[str, Callable[[Any], object]] = {
    "broken bytes": lambda raw: raw.hset(KEYS.of(Key.DEAD), "rcpt-1", b"{"),
    "record of another receipt": lambda raw: raw.hset(
        KEYS.of(Key.DEAD), "rcpt-1", builders.dead_letter("other").canonical_json()
    ),
    "index tells another time": lambda raw: raw.zadd(KEYS.of(Key.DEAD_INDEX), {"rcpt-1": 1}),
    "index without a record": lambda raw: raw.hdel(KEYS.of(Key.DEAD), "rcpt-1"),
    "record without an index": lambda raw: raw.zrem(KEYS.of(Key.DEAD_INDEX), "rcpt-1"),
}


@pytest.mark.parametrize("tampering", TAMPERINGS)
def test_tampered_dead_letter_is_reported(stores: bundle.Storage, raw: Any, tampering: str) -> None:
    """A listing that is not what was stored is an error, never a shorter listing."""
    stores.dead_letters.append(builders.dead_letter())
    stores.dead_letters.append(builders.dead_letter("good"))
    TAMPERINGS[tampering](raw)

    with pytest.raises(InvalidRecordError):
        stores.dead_letters.list()


def test_broken_dead_letter_is_reported_alone(stores: bundle.Storage, raw: Any) -> None:
    """A record that does not decode is an error when it is asked for."""
    stores.dead_letters.append(builders.dead_letter())
    TAMPERINGS["broken bytes"](raw)

    with pytest.raises(InvalidRecordError, match="rcpt-1"):
        stores.dead_letters.get("rcpt-1")


def test_broken_dead_letter_does_not_block_the_feed(redis_url: str, raw: Any) -> None:
    """The records beside a broken one are published; the broken one stays owed and is reported once it is alone."""
    backend = backends.on_redis(redis_url)
    letters = backend.storage.dead_letters
    for name in ("rcpt-1", "good"):
        letters.append(builders.dead_letter(name))
    TAMPERINGS["broken bytes"](raw)
    backend.travel(60_000)

    assert list(letters.take_unpublished(10, 1_000)) == [builders.dead_letter("good")]
    letters.published("good")
    backend.travel(60_000)
    with pytest.raises(InvalidRecordError):
        letters.take_unpublished(10, 1_000)
    assert letters.unpublished_count() == 1


def test_broken_reconciliation_entry_is_reported(stores: bundle.Storage, raw: Any) -> None:
    """An entry that does not decode is an error, not a shorter queue."""
    stores.reconciliation.enqueue(builders.pending())
    raw.hset(KEYS.of(Key.RECONCILE), builders.pending().idempotency_key, b"{")

    with pytest.raises(InvalidRecordError):
        stores.reconciliation.queued_requests()
    with pytest.raises(InvalidRecordError):
        stores.reconciliation.stale_pending(builders.CREATED_AT)
    assert stores.reconciliation.resolve(builders.pending().idempotency_key) is True


def test_broken_circuit_is_reported(stores: bundle.Storage, raw: Any) -> None:
    """A state that does not decode is an error, not a closed circuit."""
    raw.set(KEYS.of(Key.CIRCUIT, "acme"), b'{"state":"ajar"}')

    with pytest.raises(InvalidRecordError, match="acme"):
        stores.circuits.load("acme")


def test_row_of_another_type_costs_no_other_job_anything(stores: bundle.Storage, raw: Any) -> None:
    """In batches a key that somebody overwrote fails alone: its neighbours are admitted, claimed and recorded."""
    raw.set(KEYS.of(Key.JOB, "odd"), "no row")
    stores.jobs.admit_many([builders.job("a"), builders.job("b")])

    with pytest.raises(StorageUnavailableError, match="odd"):
        stores.jobs.admit_many([builders.job("c"), builders.job("odd"), builders.job("d")])
    answers = stores.jobs.claim_many([(name, 0) for name in ("a", "odd", "b", "c", "d")], builders.lease())
    claims = [answer for answer in answers if isinstance(answer, Claim)]
    raw.set(KEYS.of(Key.JOB, "b"), "no row")
    errors = stores.jobs.record_many([(claim, Finish(finished_as=FinishedAs.SETTLED)) for claim in claims])

    counts = stores.jobs.counts(JobKind.SETTLEMENT)
    assert [claim.job_id for claim in claims] == ["a", "b", "c", "d"]
    assert isinstance(answers[1], StorageUnavailableError)
    assert [type(error) for error in errors] == [type(None), StorageUnavailableError, type(None), type(None)]
    assert (counts.admitted, counts.finished[FinishedAs.SETTLED]) == (4, 3)


@pytest.mark.parametrize("packed", [b"", b"no row", b"\0" * 100, b"x" * 100])
def test_damaged_row_is_reported(stores: bundle.Storage, raw: Any, packed: bytes) -> None:
    """A row that somebody overwrote is an error with its id where it is looked at; in a batch it loses its place."""
    stores.jobs.admit_many([builders.job("a"), builders.job("odd")])
    raw.set(KEYS.of(Key.JOB, "odd"), packed)

    with pytest.raises(InvalidRecordError, match="job 'odd'"):
        stores.jobs.get("odd")
    with pytest.raises(InvalidRecordError, match="job 'odd'"):
        stores.jobs.rows(JobState.OUTSTANDING, 10)
    assert stores.jobs.finalized_at_many(["odd", "a"]) == [None, builders.FINALIZED_AT]


@pytest.mark.parametrize("cause", ["lease_expired", "parked", "message_lost"])
def test_pump_passes_by_what_is_no_row(stores: bundle.Storage, raw: Any, cause: str) -> None:
    """A row that is gone is forgotten and one that is damaged stays where it is: the others are woken all the same."""
    names = ["a-gone", "b-odd", "c"]
    stores.jobs.admit_many([builders.job(name) for name in names])
    if cause != "message_lost":
        claims = [builders.claimed(stores.jobs, name) for name in names]
    if cause == "parked":
        for claim in claims:
            stores.jobs.record(claim, Reschedule(attempt=1, delay_ms=60_000, publishes=False))
    backends.shift(raw, KEYS, 600_000)
    if cause == "message_lost":
        stores.jobs.mark_consumed("settlement", stores.jobs.now_ms())
    raw.delete(KEYS.of(Key.JOB, "a-gone"))
    raw.set(KEYS.of(Key.JOB, "b-odd"), "no row")

    woken = stores.jobs.due(10)

    assert [(wake_up.job_id, wake_up.cause.value) for wake_up in woken] == [("c", cause)]
    index = {"lease_expired": KEYS.of(Key.LEASED), "parked": KEYS.of(Key.PARKED)}.get(
        cause, KEYS.of(Key.OUTSTANDING, "settlement")
    )
    assert raw.zscore(index, "a-gone") is None
    assert raw.zscore(index, "b-odd") is not None


def test_listing_passes_by_a_row_that_is_gone(stores: bundle.Storage, raw: Any) -> None:
    """What an index names and nobody has is left out."""
    stores.jobs.admit_many([builders.job("a"), builders.job("b")])
    raw.delete(KEYS.of(Key.JOB, "a"))

    assert [row.job_id for row in stores.jobs.rows(JobState.OUTSTANDING, 10)] == ["b"]
