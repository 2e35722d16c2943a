"""What the workers told of deliveries: incidents, waits and escalations, read from their logs as they are written."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from reliability.events import Event

_FOLLOWED: Final = frozenset(
    event.value
    for event in (
        Event.INCIDENT_OPENED,
        Event.INCIDENT_CLOSED,
        Event.DELIVERY_DEFERRED,
        Event.DELIVERY_RETRY_SCHEDULED,
        Event.RECONCILIATION_ESCALATED,
    )
)


class Told:
    """Count events; killed workers' are counted too."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read_bytes: Counter[Path] = Counter()
        #: How often each partner's circuit opened, and closed.
        self.opened: Counter[str] = Counter()
        self.closed: Counter[str] = Counter()
        #: How often each job was held back, and escalated.
        self.waits: Counter[str] = Counter()
        self.escalated: Counter[str] = Counter()
        self._waited: set[tuple[str, int]] = set()
        self._failed: set[tuple[str, int]] = set()

    @property
    def waits_that_spent(self) -> int:
        """Count the waits whose attempt is not the first one and does not follow a failed one: there must be none."""
        return sum(attempt > 0 and (job, attempt - 1) not in self._failed for job, attempt in self._waited)

    def follow(self) -> Iterator[str]:
        """Read on, and say what a person should hear of at once."""
        for log in sorted(self._folder.glob("worker-*.log")):
            for event in self._new_events(log):
                yield from self._count(event)

    def _new_events(self, log: Path) -> Iterator[Mapping[str, Any]]:
        with log.open("rb") as lines:
            lines.seek(self._read_bytes[log])
            whole, end, _ = lines.read().rpartition(b"\n")
        self._read_bytes[log] += len(whole) + len(end)
        for line in whole.splitlines():
            if line.startswith(b"{"):
                document = json.loads(line)
                if document.get("event") in _FOLLOWED:
                    yield document

    def _count(self, event: Mapping[str, Any]) -> Iterator[str]:
        match event["event"]:
            case Event.INCIDENT_OPENED:
                self.opened[event["partner_id"]] += 1
                yield f"incident.opened: {event['partner_id']} does not answer, its deliveries wait"
            case Event.INCIDENT_CLOSED:
                self.closed[event["partner_id"]] += 1
                yield f"incident.closed: {event['partner_id']} confirmed one, the others follow"
            case Event.DELIVERY_DEFERRED:
                self.waits[event["job_id"]] += 1
                self._waited.add((event["job_id"], event["attempt"]))
            case Event.DELIVERY_RETRY_SCHEDULED:
                self._failed.add((event["job_id"], event["attempt"]))
            case Event.RECONCILIATION_ESCALATED:
                self.escalated[event["job_id"]] += 1
            case _:
                pass
