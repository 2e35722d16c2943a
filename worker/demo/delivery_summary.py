"""
What the demo must be able to say of deliveries at its end, as checks on plain numbers. Reads and prints nothing.

Numbers come from the input file, the project's own counts, its workers' events, and the logs of the partners.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from worker.demo.partners import DOWN, LATE, SILENT
from worker.demo.summary import Check, admission


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryFacts:
    """Hold everything the checks compare; jobs are named `delivery:<partner>:<message>`."""

    file_lines: int
    #: What `chio-worker enqueue` counted.
    enqueued: Mapping[str, int]
    #: What `chio-worker status` counts for deliveries.
    ledger: Mapping[str, int]
    #: The jobs of all dead letters of deliveries.
    dead: frozenset[str]
    #: How many effects the partners had for each job.
    effects: Mapping[str, int]
    #: How many jobs came to a partner with more than one body.
    differing_bodies: int
    #: The jobs that receipts were handed in for.
    receipts: frozenset[str]
    #: How often each job was escalated.
    escalated: Mapping[str, int]
    #: How often the circuit of the partner that was down opened, and whether it is closed now.
    opened: int
    is_closed: bool
    #: How many waits there were, and how many of them spent an attempt.
    waits: int
    waits_that_spent: int


def checks(facts: DeliveryFacts) -> Sequence[Check]:
    """Return every check in the order a reader follows a line: from the file to the partners."""
    return [
        *admission(facts.file_lines, facts.enqueued, facts.ledger),
        *_ledger(facts),
        *_effects(facts),
        *_each(facts),
    ]


def _ledger(facts: DeliveryFacts) -> Iterator[Check]:
    confirmed, dead, in_flight, admitted = (
        facts.ledger[name] for name in ("confirmed", "dead", "in_flight", "admitted")
    )
    yield Check(
        sentence=f"{confirmed} confirmed + {dead} dead = {admitted} admitted, {in_flight} in flight",
        holds=confirmed + dead == admitted and in_flight == 0,
    )
    yield Check(
        sentence=f"{len(facts.dead)} dead letters are stored for {dead} dead deliveries",
        holds=len(facts.dead) == dead,
    )


def _effects(facts: DeliveryFacts) -> Iterator[Check]:
    confirmed = facts.effects.keys() - facts.dead
    yield Check(
        sentence=f"{len(confirmed)} deliveries that are not dead took effect at their partner,"
        f" {facts.ledger['confirmed']} are confirmed",
        holds=len(confirmed) == facts.ledger["confirmed"],
    )
    repeated = [job for job, count in facts.effects.items() if count != 1]
    yield Check(sentence=f"{len(repeated)} deliveries took effect more than once", holds=not repeated)
    yield Check(
        sentence=f"{facts.differing_bodies} deliveries reached a partner with two different bodies",
        holds=not facts.differing_bodies,
    )


def _each(facts: DeliveryFacts) -> Iterator[Check]:
    late, silent = _of(LATE, facts.effects), _of(SILENT, facts.effects)
    yield Check(
        sentence=f"{LATE} confirms late: {len(late)} deliveries are confirmed by {len(facts.receipts)} receipts",
        holds=late == facts.receipts and not late & facts.dead,
    )
    yield Check(
        sentence=f"{SILENT} never confirms: {len(silent)} deliveries were escalated and are dead letters",
        holds=silent == _of(SILENT, facts.dead) and silent <= facts.escalated.keys(),
    )
    yield Check(
        sentence=f"{DOWN} was down: its circuit opened, its deliveries waited, and it is closed again",
        holds=facts.opened > 0 and facts.waits > 0 and facts.is_closed,
    )
    yield Check(sentence=f"{facts.waits_that_spent} waits spent an attempt", holds=not facts.waits_that_spent)


def _of(partner: str, jobs: Mapping[str, object] | frozenset[str]) -> frozenset[str]:
    return frozenset(job for job in jobs if job.startswith(f"delivery:{partner}:"))
