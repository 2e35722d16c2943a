"""Jobs from lines into the ledger."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence

import pytest

from reliability.errors import StorageUnavailableError
from reliability.settlement import SettlementObservation
from storage.jobs import Admission, Admitted, Conflict, Duplicate, DuplicateOf, NewJob
from tasks import messages
from worker.cli.intake import BATCH_LINES, Batch, Intake, Refusal, Tally
from worker.cli.lines import Line, LongLine

MAX_PAYLOAD_BYTES = 1_024


class FakeLedger:
    """Admit as the ledger does: the same id is a duplicate with the same bytes and a conflict with others."""

    def __init__(self) -> None:
        self.payloads: dict[str, bytes] = {}
        self.batch_sizes: list[int] = []

    def enqueue(self, jobs: Iterable[NewJob]) -> list[Admission]:
        """Admit the jobs and note how many came at once."""
        answers = [self._admit(job) for job in jobs]
        self.batch_sizes.append(len(answers))
        return answers

    def _admit(self, job: NewJob) -> Admission:
        known = self.payloads.setdefault(job.job_id, job.payload)
        if known is job.payload:
            return Admitted()
        return Duplicate(of=DuplicateOf.IN_LEDGER) if known == job.payload else Conflict()


def observation(receipt_id: str = "rcpt-1", **changed: object) -> dict[str, object]:
    """Return a valid observation as JSON fields."""
    return {
        "schema": "chio.settle.observation.v1",
        "receipt_id": receipt_id,
        "finalized_at": 1_700_000_000,
        "tool_server": "tools.example",
        "tool_name": "search",
        "capability_id": "cap-1",
        "amount": {"units": 125, "currency": "EUR"},
        "content_hash": "c0",
        "policy_hash": "p0",
    } | changed


def lines_of(*contents: object) -> list[Line]:
    """Return the contents as numbered lines; what is not bytes is written as JSON."""
    written = [content if isinstance(content, bytes) else json.dumps(content).encode() for content in contents]
    return [
        Line(number=number, content=content, size_bytes=len(content) + 1) for number, content in enumerate(written, 1)
    ]


def read(content: bytes) -> NewJob:
    """Read a line as the command does."""
    return messages.admissible_settlement(SettlementObservation.from_json(content), MAX_PAYLOAD_BYTES)


def intake(enqueue: Callable[[Iterable[NewJob]], list[Admission]]) -> Intake:
    """Return an intake of settlements."""
    return Intake(read=read, enqueue=enqueue, max_payload_bytes=MAX_PAYLOAD_BYTES)


def take(lines: Sequence[Line | LongLine], ledger: FakeLedger | None = None) -> list[Batch]:
    """Take the lines in and return every batch."""
    return list(intake((ledger or FakeLedger()).enqueue).take(lines))


def test_each_line_is_counted_once() -> None:
    """Admitted, duplicate, conflict and invalid add up to the lines."""
    lines = lines_of(
        observation("a"),
        observation("b"),
        observation("a"),
        observation("b", tool_name="other"),
        b"{",
        observation("c"),
    )

    (batch,) = take(lines)

    assert batch.tally == Tally(
        lines=6, size_bytes=sum(line.size_bytes for line in lines), admitted=3, duplicates=1, conflicts=1, invalid=1
    )


def test_order_of_fields_makes_no_conflict() -> None:
    """The same observation written with other spaces and another order of fields is a duplicate."""
    fields = observation("a")
    other_order = json.dumps(dict(reversed(fields.items())), indent=1).replace("\n", " ").encode()

    (batch,) = take(lines_of(fields, other_order))

    assert (batch.tally.admitted, batch.tally.duplicates) == (1, 1)


def test_refused_lines_are_named_in_order() -> None:
    """Problems come in the order of lines, conflicts among the invalid ones, each with its reason."""
    (batch,) = take(lines_of(b"{", observation("a"), observation("a", tool_name="x"), b"[]"))

    assert [(problem.line, problem.refusal) for problem in batch.problems] == [
        (1, Refusal.INVALID),
        (3, Refusal.CONFLICT),
        (4, Refusal.INVALID),
    ]
    assert "'a'" in batch.problems[1].reason


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(observation(schema="chio.settle.observation.v9"), id="unknown schema"),
        pytest.param(observation(surprise=1), id="unknown field"),
        pytest.param({k: v for k, v in observation().items() if k != "tool_name"}, id="missing field"),
        pytest.param(observation(amount={"units": 0, "currency": "EUR"}), id="zero amount"),
        pytest.param(observation(amount={"units": -5, "currency": "EUR"}), id="negative amount"),
        pytest.param(observation(amount={"units": 2**64, "currency": "EUR"}), id="amount past u64"),
        pytest.param(observation(amount={"units": 1.5, "currency": "EUR"}), id="fractional amount"),
        pytest.param(observation(amount={"units": "5", "currency": "EUR"}), id="amount as text"),
        pytest.param(observation(finalized_at=2**64), id="time past u64"),
        pytest.param(observation("with space"), id="id that is no header value"),
        pytest.param(observation("with\nfeed"), id="id that would add a header"),
        pytest.param(observation("delivery:p:m"), id="id of a delivery"),
        pytest.param(observation("x" * 2_000), id="long id"),
        pytest.param(observation(content_hash="x" * 2_000), id="payload past the limit"),
        pytest.param(b'{"receipt_id": "\xff"}', id="broken UTF-8"),
        pytest.param(b'{"schema": 1, "schema": 1}', id="duplicate key"),
        pytest.param(b"", id="empty line"),
        pytest.param(b"null", id="null"),
        pytest.param(b"[" * 100_000, id="nested without end"),
    ],
)
def test_bad_line_costs_only_itself(bad: object) -> None:
    """Whatever is wrong with a line, it is named with a reason and its neighbours are admitted."""
    (batch,) = take(lines_of(observation("before"), bad, observation("after")))

    assert (batch.tally.admitted, batch.tally.invalid) == (2, 1)
    assert [problem.line for problem in batch.problems] == [2]
    assert batch.problems[0].reason


def test_reason_shows_no_payload() -> None:
    """A reason names the field and never the value it holds."""
    (batch,) = take(lines_of(observation(content_hash=["secret-hash"], amount={"units": "919191", "currency": "EUR"})))

    assert "secret-hash" not in batch.problems[0].reason
    assert "919191" not in batch.problems[0].reason


def test_long_line_is_refused_with_both_sizes() -> None:
    """A line past the limit is invalid, and its reason tells the limit and the line's size."""
    (batch,) = take([LongLine(number=1, size_bytes=1_000_000)])

    assert batch.tally.invalid == 1
    assert "6144" in batch.problems[0].reason
    assert "1000000" in batch.problems[0].reason


def test_batches_are_bounded() -> None:
    """No exchange with the ledger admits more than a batch, and every batch is reported by itself."""
    ledger = FakeLedger()
    lines = lines_of(*(observation(f"r-{number}") for number in range(2 * BATCH_LINES + 1)))

    batches = take(lines, ledger)

    assert ledger.batch_sizes == [BATCH_LINES, BATCH_LINES, 1]
    assert [batch.tally.lines for batch in batches] == [BATCH_LINES, BATCH_LINES, 1]


def test_nothing_is_read_ahead_of_its_batch() -> None:
    """A stream without an end is taken in as it comes."""

    def endless() -> Iterator[Line]:
        number = 0
        while True:
            number += 1
            yield lines_of(observation(f"r-{number}"))[0]

    first = next(intake(FakeLedger().enqueue).take(endless()))

    assert first.tally.admitted == BATCH_LINES


def test_unreachable_ledger_keeps_what_was_reported() -> None:
    """When the ledger stops answering, the batches before are reported and the error comes out."""
    ledger = FakeLedger()

    def enqueue(jobs: Iterable[NewJob]) -> list[Admission]:
        if ledger.batch_sizes:
            raise StorageUnavailableError(operation="admit_many", key="jobs")
        return ledger.enqueue(jobs)

    batches = intake(enqueue).take(lines_of(*(observation(f"r-{number}") for number in range(BATCH_LINES + 1))))

    assert next(batches).tally.admitted == BATCH_LINES
    with pytest.raises(StorageUnavailableError):
        next(batches)
