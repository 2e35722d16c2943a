"""
What happens in a run and when: everything that is left to chance, drawn from the seed before anything starts.

Two runs with one seed, length and broker have the same plan; what the machine makes of it may differ.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tasks.crash_points import CrashPoint


class Fault(StrEnum):
    """Name what is done to a deployment."""

    #: A worker and all its processes end by SIGKILL; another one starts in its place.
    KILL_WORKER = "kill_worker"
    #: The main process alone ends by SIGKILL; its pool processes may finish what they run.
    KILL_MAIN = "kill_main"
    KILL_CHILD = "kill_child"
    #: A process dies at the next pass of a named point.
    KILL_AT_POINT = "kill_at_point"
    TERM_WORKER = "term_worker"
    #: A worker stands still, perhaps for longer than its leases, and goes on.
    FREEZE_WORKER = "freeze_worker"
    KILL_BEAT = "kill_beat"
    KILL_LEDGER = "kill_ledger"
    RESTART_LEDGER = "restart_ledger"
    FREEZE_LEDGER = "freeze_ledger"
    FILL_LEDGER = "fill_ledger"
    KILL_BROKER = "kill_broker"
    RESTART_BROKER = "restart_broker"
    FREEZE_BROKER = "freeze_broker"
    CUT_CONNECTIONS = "cut_connections"
    #: Everything the broker holds is deleted.
    EMPTY_BROKER = "empty_broker"
    POISON = "poison"


#: How often each fault comes, relative to the others.
WEIGHTS: Final[dict[Fault, int]] = {
    Fault.KILL_WORKER: 8,
    Fault.KILL_MAIN: 4,
    Fault.KILL_CHILD: 10,
    Fault.KILL_AT_POINT: 10,
    Fault.TERM_WORKER: 4,
    Fault.FREEZE_WORKER: 3,
    Fault.KILL_BEAT: 2,
    Fault.KILL_LEDGER: 3,
    Fault.RESTART_LEDGER: 2,
    Fault.FREEZE_LEDGER: 2,
    Fault.FILL_LEDGER: 1,
    Fault.KILL_BROKER: 3,
    Fault.RESTART_BROKER: 2,
    Fault.FREEZE_BROKER: 1,
    Fault.CUT_CONNECTIONS: 4,
    Fault.EMPTY_BROKER: 3,
    Fault.POISON: 8,
}
#: Mean pause between two faults, in seconds.
_MEAN_PAUSE_S: Final = 1.5
#: Faults begin after this and end before the run does, in seconds.
_QUIET_S: Final = 3.0
#: Longest time a server or a worker is away or stands still, in seconds.
_LONGEST_HOLD_S: Final = 5.0
#: Points that a worker passes; the others belong to producers and operators.
POINTS: Final = tuple(
    point
    for point in CrashPoint
    if point not in {CrashPoint.AFTER_ADMIT, CrashPoint.BEFORE_PUBLISH, CrashPoint.AFTER_PUBLISH}
    and point is not CrashPoint.REPLAY_AFTER_STORE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """Hold one fault: when, what, for how long, and a number that picks whom."""

    at_s: float
    fault: Fault
    hold_s: float
    pick: int
    point: CrashPoint

    def __str__(self) -> str:
        where = f" {self.point}" if self.fault is Fault.KILL_AT_POINT else ""
        return f"{self.at_s:6.1f} s {self.fault}{where}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Hold one run."""

    seed: int
    seconds: float
    broker: str
    #: Whether the broker is a server of its own; RabbitMQ always is.
    is_apart: bool
    faults: Sequence[Planned]

    def chance(self, purpose: str) -> random.Random:
        """Return the chance for one purpose, so that one use does not change another's."""
        return random.Random(f"{self.seed}-{purpose}")


def draw(seed: int, seconds: float, broker: str) -> Plan:
    """Draw the plan of a run."""
    chance = random.Random(f"{seed}-plan")
    is_apart = broker == "rabbitmq" or chance.random() < 0.5
    return Plan(
        seed=seed, seconds=seconds, broker=broker, is_apart=is_apart, faults=list(_faults(chance, seconds, is_apart))
    )


def _faults(chance: random.Random, seconds: float, is_apart: bool) -> Iterator[Planned]:
    weights = dict(WEIGHTS)
    if not is_apart:
        # What happens to the ledger's server happens to the broker.
        for fault in (Fault.KILL_BROKER, Fault.RESTART_BROKER, Fault.FREEZE_BROKER):
            del weights[fault]
    at_s = _QUIET_S
    while (at_s := at_s + chance.expovariate(1 / _MEAN_PAUSE_S)) < seconds - _QUIET_S:
        yield Planned(
            at_s=at_s,
            fault=chance.choices(list(weights), list(weights.values()))[0],
            hold_s=chance.uniform(0.2, _LONGEST_HOLD_S),
            pick=chance.randrange(1_000_000),
            point=chance.choice(POINTS),
        )
