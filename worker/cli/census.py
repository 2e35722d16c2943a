"""
One look at everything that is counted: the ledger by kind, reconciliation, quarantine, dead letters, watermarks.

Called by `chio-worker status` and by the demo. Reads only; each kind is counted consistently at one instant.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from rich.console import Group

from storage.bundle import Storage
from storage.jobs import FinishedAs, JobKind, JobState, LedgerCounts
from storage.quarantine import QuarantineCounts
from worker.cli import output


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """Hold the counts of one look."""

    at_ms: int
    kinds: Mapping[JobKind, LedgerCounts]
    reconciliation: Mapping[str, int]
    quarantine: QuarantineCounts
    dead_letters: int
    dead_letter_feed_owed: int
    #: How many outcomes wait on this host's disk for the ledger.
    spooled: int = 0
    #: How many messages wait on this host's disk for the quarantine.
    set_aside: int = 0

    @property
    def is_balanced(self) -> bool:
        """Tell whether every admitted job of every kind is in exactly one place."""
        return all(is_balanced(counts) for counts in self.kinds.values())

    def to_json(self) -> dict[str, object]:
        """Return the document of `--json`."""
        return {
            "at_ms": self.at_ms,
            "balanced": self.is_balanced,
            "kinds": {kind.value: counts_to_json(counts) for kind, counts in self.kinds.items()},
            "reconciliation": dict(self.reconciliation),
            "quarantine": dataclasses.asdict(self.quarantine),
            "dead_letters": {"stored": self.dead_letters, "feed_owed": self.dead_letter_feed_owed},
            "spooled_here": self.spooled,
            "set_aside_here": self.set_aside,
        }

    def to_tables(self) -> Group:
        """Return what a person reads."""
        beside = {
            "dead letters stored": self.dead_letters,
            "dead-letter feed owed": self.dead_letter_feed_owed,
            "quarantined messages": self.quarantine.entries,
            "quarantined messages dropped for room": self.quarantine.dropped,
            "outcomes that wait on this host's disk": self.spooled,
            "messages that wait on this host's disk": self.set_aside,
            **{f"reconciliation: {reason}": count for reason, count in self.reconciliation.items()},
        }
        return Group(
            output.table("Jobs", ["", *(kind.value for kind in self.kinds)], _job_rows(self.kinds)),
            output.table("Beside the ledger", ["", "entries"], beside.items()),
            _verdict(self.kinds),
        )


def take(storage: Storage, spooled: int = 0, set_aside: int = 0) -> Census:
    """
    Look once; what this host has spooled is told by the caller.

    Raises:
        StorageUnavailableError: The store did not answer.

    """
    return Census(
        at_ms=storage.jobs.now_ms(),
        kinds={kind: storage.jobs.counts(kind) for kind in JobKind},
        reconciliation=storage.reconciliation.counts(),
        quarantine=storage.quarantine.counts(),
        dead_letters=storage.dead_letters.count(),
        spooled=spooled,
        set_aside=set_aside,
        dead_letter_feed_owed=storage.dead_letters.unpublished_count(),
    )


def in_flight(counts: LedgerCounts) -> int:
    """Count the jobs that have not ended, wherever they wait."""
    return sum(counts.in_flight.values())


def is_balanced(counts: LedgerCounts) -> bool:
    """Tell whether ended and in flight together are what was admitted."""
    return sum(counts.finished.values()) + counts.dead + in_flight(counts) == counts.admitted


def counts_to_json(counts: LedgerCounts) -> dict[str, object]:
    """Return one kind's counts under the names of the ledger; every state is there, also at zero."""
    return {
        "admitted": counts.admitted,
        **{ended.value: counts.finished.get(ended, 0) for ended in FinishedAs},
        "dead": counts.dead,
        "in_flight": in_flight(counts),
        "in_flight_by_state": {state.value: counts.in_flight.get(state, 0) for state in JobState},
        "retried": counts.retried,
        "duplicates": counts.duplicates,
        "conflicts": counts.conflicts,
        "balanced": is_balanced(counts),
    }


def _job_rows(kinds: Mapping[JobKind, LedgerCounts]) -> list[list[object]]:
    columns = [_column(counts) for counts in kinds.values()]
    return [[name, *(column[name] for column in columns)] for name in columns[0]]


def _column(counts: LedgerCounts) -> dict[str, int]:
    return {
        "admitted": counts.admitted,
        **{ended.value: counts.finished.get(ended, 0) for ended in FinishedAs},
        "dead": counts.dead,
        "in flight": in_flight(counts),
        **{f"  {state.value}": counts.in_flight.get(state, 0) for state in JobState},
        "retried": counts.retried,
        "duplicates refused": counts.duplicates,
        "conflicts refused": counts.conflicts,
    }


def _verdict(kinds: Mapping[JobKind, LedgerCounts]) -> str:
    off = [kind.value for kind, counts in kinds.items() if not is_balanced(counts)]
    if not off:
        return "settled + skipped + confirmed + cancelled + dead + in flight = admitted"
    return f"the numbers of {', '.join(off)} do not add up; docs/operations.md says what to do"
