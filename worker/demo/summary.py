"""
What the demo must be able to say at its end, as checks on plain numbers. Reads nothing and prints nothing.

Numbers come from three places that know nothing of each other: the input file, the project's own counts, and the
effect log of the rail.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Hold everything the checks compare."""

    file_lines: int
    #: What `chio-worker enqueue` counted.
    enqueued: Mapping[str, int]
    #: What `chio-worker status` counts for settlements.
    ledger: Mapping[str, int]
    #: The receipts of all dead letters.
    dead: frozenset[str]
    #: How many effects the rail had for each receipt.
    effects: Mapping[str, int]
    #: How many receipts came to the rail with more than one body.
    differing_bodies: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Say something with numbers, and whether it holds."""

    sentence: str
    holds: bool


def checks(facts: Facts) -> Sequence[Check]:
    """Return every check in the order a reader follows a line: from the file to the rail."""
    return [*admission(facts.file_lines, facts.enqueued, facts.ledger), *_ledger(facts), *_rail(facts)]


def admission(file_lines: int, enqueued: Mapping[str, int], ledger: Mapping[str, int]) -> Iterator[Check]:
    """Check that every line of a file is accounted for, of whatever kind its jobs are."""
    admitted, duplicates, conflicts, invalid = (
        enqueued[name] for name in ("admitted", "duplicates", "conflicts", "invalid")
    )
    yield Check(
        sentence=f"{admitted} admitted + {duplicates} duplicate + {conflicts} conflict + {invalid} invalid"
        f" = {file_lines} lines of the file",
        holds=admitted + duplicates + conflicts + invalid == file_lines,
    )
    yield Check(
        sentence=f"the ledger admitted {ledger['admitted']} of {admitted}",
        holds=ledger["admitted"] == admitted,
    )


def _ledger(facts: Facts) -> Iterator[Check]:
    settled, skipped, dead, in_flight, admitted = (
        facts.ledger[name] for name in ("settled", "skipped", "dead", "in_flight", "admitted")
    )
    yield Check(
        sentence=f"{settled} settled + {skipped} skipped + {dead} dead = {admitted} admitted, {in_flight} in flight",
        holds=settled + skipped + dead == admitted and in_flight == 0,
    )
    yield Check(
        sentence=f"{len(facts.dead)} dead letters are stored for {dead} dead jobs",
        holds=len(facts.dead) == dead,
    )


def _rail(facts: Facts) -> Iterator[Check]:
    settled = facts.ledger["settled"]
    confirmed = facts.effects.keys() - facts.dead
    yield Check(
        sentence=f"{len(confirmed)} receipts that are not dead had an effect on the rail, {settled} are settled",
        holds=len(confirmed) == settled,
    )
    repeated = [receipt for receipt, count in facts.effects.items() if count != 1]
    yield Check(sentence=f"{len(repeated)} receipts had more than one effect on the rail", holds=not repeated)
    yield Check(
        sentence=f"{facts.differing_bodies} receipts reached the rail with two different bodies",
        holds=not facts.differing_bodies,
    )
