"""Feeding the demo: each file by a `chio-worker enqueue` of its own, receipts once the late partner wrote them all."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from worker.demo import stack
from worker.demo.looks import Look
from worker.demo.partners import LATE, Partners
from worker.demo.processes import Child, Processes

#: Enqueueing a file with refused lines ends with 1.
_FINE: Final = frozenset({0, 1})


@dataclass(slots=True)
class Feed:
    """Hold one `chio-worker enqueue`: running, or ended with what it counted."""

    processes: Processes
    child: Child
    _counted: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, processes: Processes, what: str, file: Path) -> "Feed":
        """Start to feed a file of settlements, deliveries or receipts."""
        arguments = stack.command("enqueue", what, str(file), "--json")
        return cls(processes, processes.start(f"enqueue-{what}", arguments, _FINE))

    @property
    def counted(self) -> Mapping[str, Any] | None:
        """Return what it counted; None while it runs."""
        if self._counted is None and self.processes.finished(self.child, _FINE):
            written = self.child.written().splitlines()
            self._counted = json.loads(next(line for line in written if line.startswith("{")))
        return self._counted


class Feeding:
    """Feed everything a demo has."""

    def __init__(self, processes: Processes, observations: Path, deliveries: Path, partners: Partners) -> None:
        self._processes = processes
        self._partners = partners
        self._late = late_messages(deliveries)
        self.settlements = Feed.of(processes, "settlement", observations)
        self.deliveries = Feed.of(processes, "delivery", deliveries)
        self.receipts: Feed | None = None

    def go_on(self, tell: Callable[[str], None]) -> None:
        """Hand the receipts in as soon as there is one for each delivery that is confirmed late."""
        if self.receipts is None and self._partners.confirmed() == self._late:
            tell(f"{LATE} has written {len(self._late)} receipts, they are handed in")
            self.receipts = Feed.of(self._processes, "receipts", self._partners.receipts)

    def is_over(self, look: Look) -> bool:
        """Tell whether all is fed and all jobs have ended."""
        settlements, deliveries = self.settlements.counted, self.deliveries.counted
        if settlements is None or deliveries is None or self.receipts is None or self.receipts.counted is None:
            return False
        # A look may be older than the end of the feeding: only one that counts every admitted job is the last.
        is_whole = look.counts["admitted"] == settlements["admitted"]
        is_whole = is_whole and look.deliveries["admitted"] == deliveries["admitted"]
        return is_whole and not look.counts["in_flight"] and not look.deliveries["in_flight"]


def late_messages(deliveries: Path) -> frozenset[str]:
    """Return the jobs of a file whose partner confirms late."""
    found = (json.loads(line) for line in deliveries.read_bytes().splitlines())
    return frozenset(f"delivery:{LATE}:{each['message_id']}" for each in found if each["partner_id"] == LATE)
