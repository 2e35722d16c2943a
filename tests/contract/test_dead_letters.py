"""What `DeadLetterStorage` promises."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from reliability.errors import DeadLetterConflictError, InvalidInputError
from storage.jobs import Bury
from tests.support import builders
from tests.support.backends import Backend

GRACE_MS = 5_000


def test_new_record_is_stored(backend: Backend) -> None:
    """A record that was appended comes back equal and is counted."""
    record = builders.dead_letter()

    assert backend.storage.dead_letters.append(record) is True

    assert backend.storage.dead_letters.get("rcpt-1") == record
    assert backend.storage.dead_letters.count() == 1


def test_same_bytes_are_no_operation(backend: Backend) -> None:
    """Appending the same record again changes nothing, also not its owed publication."""
    backend.storage.dead_letters.append(builders.dead_letter())
    backend.storage.dead_letters.published("rcpt-1")

    assert backend.storage.dead_letters.append(builders.dead_letter()) is False

    assert backend.storage.dead_letters.count() == 1
    assert backend.storage.dead_letters.unpublished_count() == 0


def test_other_bytes_conflict(backend: Backend) -> None:
    """A different record for the same receipt is refused and changes nothing."""
    kept = builders.dead_letter(attempts=1)
    backend.storage.dead_letters.append(kept)

    with pytest.raises(DeadLetterConflictError) as raised:
        backend.storage.dead_letters.append(builders.dead_letter(attempts=2))

    assert raised.value.receipt_id == "rcpt-1"
    assert backend.storage.dead_letters.get("rcpt-1") == kept


def test_unknown_receipt_has_no_record(backend: Backend) -> None:
    """Nothing is known of a receipt that never died."""
    letters = backend.storage.dead_letters

    assert (letters.get("nobody"), letters.payload("nobody"), letters.clear("nobody")) == (None, None, False)


def test_records_are_listed_in_order(backend: Backend) -> None:
    """A listing is ordered by time, then by the id's bytes."""
    rows = [("b", 2), ("é", 1), ("z", 1), ("Z", 1), ("a", 2), ("first", 0)]
    for receipt_id, finalized_at in rows:
        backend.storage.dead_letters.append(builders.dead_letter(receipt_id, finalized_at))

    listed = backend.storage.dead_letters.list()

    assert [record.receipt_id for record in listed] == ["first", "Z", "z", "é", "a", "b"]


def test_latest_time_is_ordered_exactly(backend: Backend) -> None:
    """Neighbouring instants at the end of the range keep their order and their value."""
    for receipt_id, finalized_at in (("last", 2**53 - 1), ("before", 2**53 - 2)):
        backend.storage.dead_letters.append(builders.dead_letter(receipt_id, finalized_at))

    listed = backend.storage.dead_letters.list()

    assert [(record.receipt_id, record.finalized_at) for record in listed] == [
        ("before", 2**53 - 2),
        ("last", 2**53 - 1),
    ]


def test_listing_has_pages(backend: Backend) -> None:
    """Limit and offset cut the ordered listing."""
    for number in range(5):
        backend.storage.dead_letters.append(builders.dead_letter(f"r{number}", number))

    pages = [backend.storage.dead_letters.list(2, offset) for offset in (0, 2, 4, 6)]

    assert [[record.receipt_id for record in page] for page in pages] == [["r0", "r1"], ["r2", "r3"], ["r4"], []]
    assert len(backend.storage.dead_letters.list(offset=3)) == 2


def test_page_out_of_range_is_refused(backend: Backend) -> None:
    """A page of nothing or with a negative start is an error."""
    with pytest.raises(InvalidInputError):
        backend.storage.dead_letters.list(0)
    with pytest.raises(InvalidInputError):
        backend.storage.dead_letters.list(1, -1)


def test_clear_tells_whether_there_was_a_record(backend: Backend) -> None:
    """Clearing removes record, payload and owed publication, once."""
    letters = backend.storage.dead_letters
    claim = builders.admitted_and_claimed(backend.storage.jobs)
    backend.storage.jobs.record(claim, Bury(record=builders.dead_letter()))

    assert [letters.clear("rcpt-1"), letters.clear("rcpt-1")] == [True, False]

    assert (letters.get("rcpt-1"), letters.payload("rcpt-1"), list(letters.list())) == (None, None, [])
    assert (letters.count(), letters.unpublished_count()) == (0, 0)


def test_clear_leaves_a_living_job_alone(backend: Backend) -> None:
    """Clearing a stray record does not touch the job in the ledger under the same id."""
    backend.storage.jobs.admit(builders.job())
    backend.storage.dead_letters.append(builders.dead_letter())

    backend.storage.dead_letters.clear("rcpt-1")

    assert builders.claimed(backend.storage.jobs).payload == builders.job().payload


def test_payload_of_a_living_job_is_none(backend: Backend) -> None:
    """Only a dead job has a payload here."""
    backend.storage.jobs.admit(builders.job())
    assert backend.storage.dead_letters.payload("rcpt-1") is None


def test_fresh_record_is_left_to_its_worker(backend: Backend) -> None:
    """The worker that stored a record publishes it; only after a while the pump takes it."""
    record = builders.dead_letter()
    backend.storage.dead_letters.append(record)

    at_once = backend.storage.dead_letters.take_unpublished(10, 60_000)
    backend.travel(GRACE_MS)
    later = backend.storage.dead_letters.take_unpublished(10, 60_000)

    assert (list(at_once), list(later)) == ([], [record])


def test_taken_record_comes_again_until_published(backend: Backend) -> None:
    """A publication that was not confirmed is owed again after its time; a confirmed one is not."""
    letters, record = backend.storage.dead_letters, builders.dead_letter()
    letters.append(record)
    backend.travel(GRACE_MS)

    first = letters.take_unpublished(10, 60_000)
    too_early = letters.take_unpublished(10, 60_000)
    backend.travel(60_000)
    again = letters.take_unpublished(10, 60_000)
    letters.published("rcpt-1")
    backend.travel(60_000)
    after = letters.take_unpublished(10, 60_000)

    assert [list(batch) for batch in (first, too_early, again, after)] == [[record], [], [record], []]
    assert letters.unpublished_count() == 0
    assert letters.get("rcpt-1") == record


def test_take_is_bounded(backend: Backend) -> None:
    """At most `limit` records are taken, the longest owed first."""
    for number in range(3):
        backend.storage.dead_letters.append(builders.dead_letter(f"r{number}"))
        backend.travel(1_000)
    backend.travel(GRACE_MS)

    taken = [backend.storage.dead_letters.take_unpublished(2, 3_600_000) for _ in range(2)]

    assert [[record.receipt_id for record in batch] for batch in taken] == [["r0", "r1"], ["r2"]]


def test_take_out_of_range_is_refused(backend: Backend) -> None:
    """A pump that takes nothing, or waits a negative time, is told so."""
    with pytest.raises(InvalidInputError):
        backend.storage.dead_letters.take_unpublished(0, 1_000)
    with pytest.raises(InvalidInputError):
        backend.storage.dead_letters.take_unpublished(1, -1)


def test_publication_of_an_unknown_record_is_nothing(backend: Backend) -> None:
    """Confirming a publication that is not owed changes nothing."""
    backend.storage.dead_letters.published("nobody")
    assert backend.storage.dead_letters.unpublished_count() == 0


def test_ten_pumps_take_each_record_once(backend: Backend) -> None:
    """Of ten pumps that run at once exactly one publishes each record."""
    letters = backend.storage.dead_letters
    names = sorted(f"r{number}" for number in range(50))
    for name in names:
        letters.append(builders.dead_letter(name))
    backend.travel(GRACE_MS)

    with ThreadPoolExecutor(10) as threads:
        batches = list(threads.map(lambda _: letters.take_unpublished(20, 3_600_000), range(10)))

    assert sorted(record.receipt_id for batch in batches for record in batch) == names


def test_one_of_many_writers_wins(backend: Backend) -> None:
    """Of 16 threads that append different records for one receipt exactly one stores its own."""

    def append(attempts: int) -> bool | None:
        try:
            return backend.storage.dead_letters.append(builders.dead_letter(attempts=attempts))
        except DeadLetterConflictError:
            return None

    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(append, range(1, 17)))

    winner = answers.index(True) + 1
    assert answers.count(None) == 15
    assert backend.storage.dead_letters.get("rcpt-1") == builders.dead_letter(attempts=winner)
