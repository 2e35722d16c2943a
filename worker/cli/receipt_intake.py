"""
Receipts from lines to the workers: each line is checked, signature included, then published as a message of its own.

One bad line costs only itself. Nothing keeps a receipt before a worker has it, so an input that broke off is handed in
again whole; what was there before changes nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from tasks import receipt_messages
from tasks.confirm_flow import ReceiptPolicy
from worker.cli import intake
from worker.cli.intake import Batch, Problem, Tally
from worker.cli.lines import Line, LongLine


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptIntake:
    """Take lines in; `publish` sends the arguments of one message."""

    policy: ReceiptPolicy | None
    publish: Callable[[Mapping[str, object]], None]
    max_payload_bytes: int

    @property
    def max_line_bytes(self) -> int:
        """Return the length past which a line is refused unread."""
        return self.max_payload_bytes * intake.ESCAPE_FACTOR

    def take(self, lines: Iterable[Line | LongLine]) -> Iterator[Batch]:
        """
        Publish the lines batch by batch.

        Raises:
            PublishError: The batches reported so far are with the broker; the one after them may be in part.

        """
        source = iter(lines)
        while batch := list(islice(source, intake.BATCH_LINES)):
            yield self._take_batch(batch)

    def _take_batch(self, batch: list[Line | LongLine]) -> Batch:
        read = [intake.read_or_refused(line, self._believed, self.max_line_bytes) for line in batch]
        problems = [found for found in read if isinstance(found, Problem)]
        receipts = [found for found in read if not isinstance(found, Problem)]
        for arguments in receipts:
            self.publish(arguments)
        size_bytes = sum(line.size_bytes for line in batch)
        tally = Tally(lines=len(batch), size_bytes=size_bytes, admitted=len(receipts), invalid=len(problems))
        return Batch(tally=tally, problems=problems)

    def _believed(self, content: bytes) -> dict[str, object]:
        arguments = receipt_messages.arguments_of(content)
        receipt_messages.believed(arguments, self.policy)
        return arguments
