"""
Every way in which a ledger's row changes its place, found by trying everything everywhere.

`explored` drives the memory back end from an unknown id on, one operation at a time, until no new situation turns up;
`walked` takes one of the paths it found on any back end.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from reliability.errors import ChioError
from storage import bundle
from storage.job_ids import delivery_job_id
from storage.jobs import Admitted, Await, Bury, Claim, Finish, FinishedAs, JobState, Lease, Reschedule, Transition
from storage.memory_dead_letters import InMemoryDeadLetterStorage
from storage.memory_jobs import InMemoryJobStorage
from storage.memory_reconciliation import InMemoryReconciliationStorage
from storage.memory_state import MemoryState
from storage.protocols import DeadLetterStorage, JobStorage, ReconciliationStorage
from tests.support import backends, builders
from tests.support.clock import ManualClock

JOB: Final = builders.delivery_job()
JOB_ID: Final = delivery_job_id("acme", "msg-1")
#: Another job, of which nothing is looked at: what takes many jobs takes two.
NEIGHBOUR: Final = builders.job("neighbour")
#: Where an id is that nothing is known of, and where a dead one is.
UNKNOWN: Final = "unknown"
DEAD: Final = "dead"
#: Longer than a lease and than any delay or slack here.
LONG_MS: Final = 600_000
LEASE_MS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Edge:
    """Hold one change: what was done, where the job was and where it is."""

    operation: str
    source: str
    target: str


@dataclass(slots=True, kw_only=True)
class Bench:
    """Hold the stores of one job, a way to let time pass, and the claim that was taken last."""

    jobs: JobStorage
    dead_letters: DeadLetterStorage
    reconciliation: ReconciliationStorage
    travel: Callable[[int], None]
    claims: list[Claim] = field(default_factory=list)

    def place(self) -> str:
        """Return the state of the row, how the job ended, or that nothing is known of it."""
        if row := self.jobs.get(JOB_ID):
            return row.state.value
        if self.dead_letters.get(JOB_ID):
            return DEAD
        return self.jobs.ending(JOB_ID) or UNKNOWN


Operation = Callable[[Bench], bool]


def _taken(bench: Bench, *answers: object) -> bool:
    claims = [answer for answer in answers if isinstance(answer, Claim)]
    bench.claims += claims
    return bool(claims)


def _attempt(bench: Bench) -> int:
    row = bench.jobs.get(JOB_ID)
    return row.attempt if row else 0


def _record(transition: Transition) -> Operation:
    def record(bench: Bench) -> bool:
        try:
            bench.jobs.record(bench.claims[-1], transition)
        except (ChioError, IndexError):
            return False
        return True

    return record


def _record_many(transition: Transition) -> Operation:
    return lambda bench: bench.jobs.record_many([(claim, transition) for claim in bench.claims[-1:]]) == [None]


def _moved(operation: Operation) -> Operation:
    """Count the operation only where it changed the row's place: it may have done something else."""

    def moved(bench: Bench) -> bool:
        before = bench.place()
        return operation(bench) and bench.place() != before

    return moved


def _conclude(transition: Finish | Bury) -> Operation:
    def conclude(bench: Bench) -> bool:
        row = bench.jobs.get(JOB_ID)
        return row is not None and bench.jobs.conclude(JOB_ID, row.version, transition)

    return conclude


def _lose_message(bench: Bench) -> bool:
    bench.jobs.mark_consumed(JOB.queue, bench.jobs.now_ms())
    return False


def _pass_time(bench: Bench) -> bool:
    bench.travel(LONG_MS)
    return False


def _is_marked(bench: Bench) -> bool:
    # The hold of a running attempt changes its place only when it ends.
    return bench.place() == JobState.LEASED and bench.jobs.hold(JOB_ID)


def _due(bench: Bench) -> bool:
    # A row whose lease ran out with a hold set is held, and nothing is to be published for it.
    before = bench.place()
    return bool(bench.jobs.due(1)) or bench.place() != before


_BURY: Final = Bury(record=builders.dead_letter(JOB_ID))
_FINISHES: Final = [Finish(finished_as=ending) for ending in FinishedAs if ending is not FinishedAs.CANCELLED]
_LATER: Final = [Reschedule(attempt=1, delay_ms=LEASE_MS, publishes=publishes) for publishes in (True, False)]
_PENDING: Final = builders.pending()
_ESCALATED: Final = builders.indeterminate()

#: What can be done, by the name it has on the page, in all its variants; each tells whether it did anything.
OPERATIONS: Final[Mapping[str, Sequence[Operation]]] = {
    "jobs.admit": [lambda bench: bench.jobs.admit(JOB) == Admitted()],
    "jobs.admit_many": [lambda bench: bench.jobs.admit_many([JOB, NEIGHBOUR])[0] == Admitted()],
    "jobs.admit_and_claim": [lambda bench: _taken(bench, bench.jobs.admit_and_claim(JOB, _lease()))],
    "jobs.claim": [lambda bench: _taken(bench, bench.jobs.claim(JOB_ID, _attempt(bench), _lease()))],
    "jobs.claim_many": [lambda bench: _taken(bench, *bench.jobs.claim_many([(JOB_ID, _attempt(bench))], _lease()))],
    "jobs.renew": [lambda bench: bench.jobs.renew(bench.claims[-1:], LEASE_MS) == [True]],
    "jobs.resume": [lambda bench: bool(bench.claims) and bench.jobs.resume(bench.claims[-1], LEASE_MS)],
    "jobs.record(Reschedule)": [_record(step) for step in _LATER],
    "jobs.record(Await)": [_record(Await(request=_PENDING))],
    "jobs.record(Finish)": [_record(step) for step in _FINISHES],
    "jobs.record(Bury)": [_record(_BURY)],
    "jobs.record_many(Reschedule)": [_record_many(step) for step in _LATER],
    "jobs.record_many(Await)": [_record_many(Await(request=_PENDING))],
    "jobs.record_many(Finish)": [_record_many(step) for step in _FINISHES],
    "jobs.record_many(Bury)": [_record_many(_BURY)],
    "jobs.due": [_due],
    "jobs.hold": [_moved(lambda bench: bench.jobs.hold(JOB_ID)), _is_marked],
    "jobs.release": [lambda bench: bench.jobs.release(JOB_ID)],
    "jobs.cancel": [lambda bench: bench.jobs.cancel(JOB_ID)],
    "jobs.conclude(Finish)": [_conclude(step) for step in _FINISHES if step.finished_as is not FinishedAs.SKIPPED],
    "jobs.conclude(Bury)": [_conclude(_BURY)],
    "jobs.replay": [lambda bench: bench.jobs.replay(JOB_ID) is not None],
    "reconciliation.escalate": [
        _moved(lambda bench: bench.reconciliation.escalate(_PENDING.idempotency_key, _ESCALATED))
    ],
    "reconciliation.resolve": [_moved(lambda bench: bench.reconciliation.resolve(_PENDING.idempotency_key))],
    "dead_letters.clear": [lambda bench: bench.dead_letters.clear(JOB_ID)],
    "": [_lose_message, _pass_time],
}
_STEPS: Final = [(name, operation) for name, variants in OPERATIONS.items() for operation in variants]

#: The steps of a path, by their place in `_STEPS`.
Path = tuple[int, ...]


def explored() -> dict[Edge, Path]:
    """Return every change with the shortest path that ends with it."""
    found: dict[Edge, Path] = {}
    seen, waiting = set[object](), deque[Path]([()])
    while waiting:
        path = waiting.popleft()
        for number in range(len(_STEPS)):
            longer = (*path, number)
            bench, state = _in_memory()
            edge = walked(bench, longer)
            if edge is not None:
                found.setdefault(edge, longer)
            if (situation := _situation(bench, state)) not in seen:
                seen.add(situation)
                waiting.append(longer)
    return found


def walked(bench: Bench, path: Path, before_last: Callable[[], object] = lambda: None) -> Edge | None:
    """Take the path and return the change its last step made; None if it did nothing."""
    for number in path[:-1]:
        _STEPS[number][1](bench)
    name, operation = _STEPS[path[-1]]
    source = bench.place()
    before_last()
    done = operation(bench)
    return Edge(operation=name, source=source, target=bench.place()) if done else None


def bench_on(backend: backends.Backend) -> Bench:
    """Return a bench on a back end."""
    stores: bundle.Storage = backend.storage
    return Bench(
        jobs=stores.jobs,
        dead_letters=stores.dead_letters,
        reconciliation=stores.reconciliation,
        travel=backend.travel,
    )


def _in_memory() -> tuple[Bench, MemoryState]:
    clock = ManualClock()
    state = MemoryState(clock)
    bench = Bench(
        jobs=InMemoryJobStorage(state),
        dead_letters=InMemoryDeadLetterStorage(state),
        reconciliation=InMemoryReconciliationStorage(state),
        travel=clock.advance,
    )
    return bench, state


def _situation(bench: Bench, state: MemoryState) -> object:
    """Return all that decides what an operation does next, without the numbers that only grow."""
    row, now_ms, place = state.rows.get(JOB_ID), state.clock.now_ms(), bench.place()
    has_entry = bench.reconciliation.find(_PENDING.idempotency_key) is not None
    if row is None:
        return place, has_entry
    last = bench.claims[-1] if bench.claims else None
    return (
        place,
        has_entry,
        row.attempt > 0,
        row.hold,
        row.cause,
        row.due_at_ms <= now_ms,
        row.score <= now_ms,
        row.score <= state.watermarks[JOB.queue],
        last is not None and (last.version, last.token) == (row.version, row.token),
    )


def _lease() -> Lease:
    return builders.lease(lease_ms=LEASE_MS)
