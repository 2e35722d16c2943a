"""Whatever is done to the dead letters in whatever order, they answer as a sorted dictionary would."""

import itertools

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from reliability.dead_letter import DeadLetterRecord
from reliability.errors import DeadLetterConflictError
from storage.options import PUBLICATION_GRACE_MS
from tests.support import backends, builders

MINUTE_MS = 60_000
GRACE_MIN = PUBLICATION_GRACE_MS / MINUTE_MS
RUNS = settings(
    max_examples=40,
    stateful_step_count=40,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),  # how fast a server answers says nothing about the ledger
)

receipts = st.sampled_from(["a", "Z", "é", "rcpt:1"])
records = st.builds(builders.dead_letter, receipts, st.integers(0, 2), st.integers(1, 2))


class DeadLetterMachine(RuleBasedStateMachine):
    """Drive one back end and a dictionary side by side; the dictionary of owed publications holds minutes."""

    def __init__(self) -> None:
        super().__init__()
        self.backend = self.make()
        self.letters = self.backend.storage.dead_letters
        self.kept: dict[str, DeadLetterRecord] = {}
        self.owed: dict[str, float] = {}
        self.now = 0.0

    def make(self) -> backends.Backend:
        """Return an empty back end; each back end's test says how."""
        raise NotImplementedError

    @rule(record=records)
    def append(self, record: DeadLetterRecord) -> None:
        """Append a record that is new, the same, or another one."""
        kept = self.kept.get(record.receipt_id)
        if kept is not None and kept != record:
            with pytest.raises(DeadLetterConflictError):
                self.letters.append(record)
            return
        assert self.letters.append(record) is (kept is None)
        if kept is None:
            self.kept[record.receipt_id] = record
            self.owed[record.receipt_id] = self.now + GRACE_MIN

    @rule(receipt_id=receipts)
    def clear(self, receipt_id: str) -> None:
        """Clear a record that may be there."""
        assert self.letters.clear(receipt_id) is (self.kept.pop(receipt_id, None) is not None)
        self.owed.pop(receipt_id, None)

    @rule(minutes=st.integers(1, 3))
    def travel(self, minutes: int) -> None:
        """Let time pass."""
        self.backend.travel(minutes * MINUTE_MS)
        self.now += minutes

    @rule(retry_after=st.integers(1, 3))
    def take(self, retry_after: int) -> None:
        """Take all that is owed by now."""
        taken = {record.receipt_id for record in self.letters.take_unpublished(10, retry_after * MINUTE_MS)}

        expected = {receipt_id for receipt_id, at in self.owed.items() if at <= self.now}
        assert taken == expected
        self.owed |= dict.fromkeys(expected, self.now + retry_after)

    @rule(receipt_id=receipts)
    def publish(self, receipt_id: str) -> None:
        """Confirm a publication."""
        self.letters.published(receipt_id)
        self.owed.pop(receipt_id, None)

    @rule(limit=st.integers(1, 3), offset=st.integers(0, 3))
    def page(self, limit: int, offset: int) -> None:
        """Look at a page of the listing."""
        assert list(self.letters.list(limit, offset)) == self._in_order()[offset : offset + limit]

    @invariant()
    def everything_agrees(self) -> None:
        """Compare listing, single records and counts with the dictionary."""
        assert list(self.letters.list()) == self._in_order()
        assert {name: self.letters.get(name) for name in self.kept} == self.kept
        assert (self.letters.count(), self.letters.unpublished_count()) == (len(self.kept), len(self.owed))

    def _in_order(self) -> list[DeadLetterRecord]:
        return sorted(self.kept.values(), key=lambda record: (record.finalized_at, record.receipt_id.encode()))


def test_memory_dead_letters_follow_the_model() -> None:
    """The memory store answers every sequence of operations as the dictionary does."""

    class MemoryDeadLetterMachine(DeadLetterMachine):
        def make(self) -> backends.Backend:
            return backends.memory()

    run_state_machine_as_test(MemoryDeadLetterMachine, settings=RUNS)


@pytest.mark.server
def test_redis_dead_letters_follow_the_model(redis_url: str) -> None:
    """The Redis store answers every sequence of operations as the dictionary does."""
    numbers = itertools.count()

    class RedisDeadLetterMachine(DeadLetterMachine):
        def make(self) -> backends.Backend:
            return backends.on_redis(redis_url, namespace=f"machine{next(numbers)}:")

    run_state_machine_as_test(RedisDeadLetterMachine, settings=RUNS)
