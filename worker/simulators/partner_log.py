"""
The partner's effect log: the shared log's entries, with whose message it was and whether its signature holds.

Tests and the demo read it as the account from outside.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from worker.simulators.effect_log import LogEntry, Tally


class Signature(StrEnum):
    """Say what the partner found of a request's signature."""

    VALID = "valid"
    INVALID = "invalid"
    #: The simulator was given no secret of this partner, or did not read the body.
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartnerLogEntry(LogEntry):
    """Hold one request; `key` is the delivery's job id in the ledger, `body_sha256` is empty for a body not read."""

    partner_id: str
    message_id: str
    signature: Signature


def read(path: Path) -> Iterator[PartnerLogEntry]:
    """Read the entries of a log, also while it is written; a last line without its line feed is not there yet."""
    with path.open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):
                yield PartnerLogEntry.from_json(line)


def tally(entries: Iterable[PartnerLogEntry]) -> Tally:
    """Count the entries whose body was read."""
    counted = Tally()
    for entry in entries:
        if entry.body_sha256:
            counted.add(entry)
    return counted
