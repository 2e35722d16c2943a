"""
Receipts from lines to their jobs: each line is checked, signature included, then applied to the ledger at once.

No broker is in between, since nothing else would keep a receipt that it lost. One bad line costs only itself; the same
receipt twice changes nothing, so an input that broke off is handed in again whole.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from reliability.receipt import DeliveryReceipt
from tasks import receipt_messages
from tasks.confirm_flow import ConfirmFlow, ReceiptAnswer, ReceiptPolicy, receipt_job_id
from worker.cli import intake
from worker.cli.intake import Batch, Problem, Refusal, Tally
from worker.cli.lines import Line, LongLine

_TALLIES = {
    ReceiptAnswer.RESOLVED: Tally(admitted=1),
    ReceiptAnswer.REPEATED: Tally(duplicates=1),
    ReceiptAnswer.CONFLICTING: Tally(conflicts=1),
    ReceiptAnswer.UNKNOWN: Tally(unknown=1),
}
#: What a person has to look into.
_PROBLEMS = {
    ReceiptAnswer.CONFLICTING: (Refusal.CONFLICT, "has ended the other way; nothing was changed"),
    ReceiptAnswer.UNKNOWN: (Refusal.UNKNOWN, "is no job that was sent"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptIntake:
    """Take lines in; `keep` sets aside what disagrees or names nothing that is known."""

    policy: ReceiptPolicy | None
    flow: ConfirmFlow
    keep: Callable[[Mapping[str, object], ReceiptAnswer], None]
    max_payload_bytes: int

    @property
    def max_line_bytes(self) -> int:
        """Return the length past which a line is refused unread."""
        return self.max_payload_bytes * intake.ESCAPE_FACTOR

    def take(self, lines: Iterable[Line | LongLine]) -> Iterator[Batch]:
        """
        Apply the lines batch by batch.

        Raises:
            StorageUnavailableError: The batches reported so far are applied; the one after them may be in part.

        """
        source = iter(lines)
        while batch := list(islice(source, intake.BATCH_LINES)):
            taken = [self._take(line) for line in batch]
            yield Batch(
                tally=sum((tally for tally, _ in taken), Tally()),
                problems=[problem for _, problem in taken if problem is not None],
            )

    def _take(self, line: Line | LongLine) -> tuple[Tally, Problem | None]:
        one = Tally(lines=1, size_bytes=line.size_bytes)
        read = intake.read_or_refused(line, self._believed, self.max_line_bytes)
        if isinstance(read, Problem):
            return one + Tally(invalid=1), read
        arguments, receipt = read
        answer = self.flow.run(receipt)
        return one + _TALLIES[answer], self._problem(line.number, arguments, receipt, answer)

    def _believed(self, content: bytes) -> tuple[Mapping[str, object], DeliveryReceipt]:
        arguments = receipt_messages.arguments_of(content)
        return arguments, receipt_messages.believed(arguments, self.policy)

    def _problem(
        self, line: int, arguments: Mapping[str, object], receipt: DeliveryReceipt, answer: ReceiptAnswer
    ) -> Problem | None:
        if answer not in _PROBLEMS:
            return None
        self.keep(arguments, answer)
        refusal, reason = _PROBLEMS[answer]
        told = f"{receipt_job_id(receipt)} {reason}; the receipt is kept in quarantine"
        return Problem(line=line, refusal=refusal, reason=told)
