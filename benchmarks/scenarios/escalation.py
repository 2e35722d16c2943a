"""What escalating the stale entries costs among few and among many that wait, and what one of them takes in memory."""

import itertools
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from benchmarks import arithmetic, ledger_jobs
from benchmarks.bench import Bench, Scenario
from benchmarks.figures import Findings, Goal, Table
from reliability.reconciliation import (
    ReconciliationReason,
    ReconciliationRequest,
    escalate_stale_pending_reconciliation_requests,
)
from storage.bundle import Storage
from storage.instants import micros_of
from storage.keys import Keys
from storage.scripts import Call, Script, Scripts

_STALE: Final = 1_000
_MAX_AGE: Final = timedelta(hours=1)
_NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
_CAPACITY: Final = 2_000_000
_CHUNK: Final = 2_000
_MS_PER_S: Final = 1_000
_GOAL_PENDING: Final = 1_000_000


def _run(bench: Bench) -> Findings:
    numbers = itertools.count()
    taken, entry_bytes = {}, {}
    for pending in bench.scale.pending:
        bench.client().flushdb()
        before = _used_bytes(bench)
        _queue(bench, itertools.islice(numbers, pending), _NOW)
        entry_bytes[pending] = (_used_bytes(bench) - before) / pending
        taken[pending] = arithmetic.median([_escalation_ms(bench, numbers) for _ in range(bench.scale.rounds)])
        bench.say(f"{pending:,} pending: {taken[pending]:.0f} ms, {entry_bytes[pending]:.0f} bytes an entry")
    few, many = bench.scale.pending
    slower = arithmetic.ratio(taken[many], taken[few]) if many >= _GOAL_PENDING else None
    rows = [(f"{pending:,}", taken[pending], entry_bytes[pending]) for pending in bench.scale.pending]
    table = Table.of(
        f"Escalating {_STALE:,} stale entries", ("pending entries", "milliseconds", "bytes per pending entry"), rows
    )
    goal = Goal.at_most("escalating 1,000 of 1,000,000 pending", 2, "x what it costs of 10,000", slower)
    return Findings(tables=(table,), goals=(goal,))


def _escalation_ms(bench: Bench, numbers: Iterator[int]) -> float:
    _queue(bench, itertools.islice(numbers, _STALE), _NOW - 2 * _MAX_AGE)
    storage: Storage = ledger_jobs.storage(bench)
    began_s = time.perf_counter()
    escalated = escalate_stale_pending_reconciliation_requests(storage.reconciliation, _MAX_AGE, _NOW)
    elapsed_s = time.perf_counter() - began_s
    if len(escalated) != _STALE:
        raise AssertionError(f"expected {_STALE} escalated entries, got: {len(escalated)}")
    return elapsed_s * _MS_PER_S


def _queue(bench: Bench, numbers: Iterator[int], created_at: datetime) -> None:
    scripts = Scripts(bench.client(), Keys())
    while chunk := list(itertools.islice(numbers, _CHUNK)):
        scripts.run_many([_entry(number, created_at) for number in chunk])


def _entry(number: int, created_at: datetime) -> Call:
    request = ReconciliationRequest.new(
        ReconciliationReason.PENDING_VERIFICATION, f"msg-{number:012d}", "partner-17", created_at
    )
    key, created_us = request.idempotency_key, micros_of(created_at)
    arguments = (key, request.canonical_json(), request.reason.value, created_us, _CAPACITY)
    return Call(Script.RECONCILE_ENQUEUE, key, arguments)


def _used_bytes(bench: Bench) -> int:
    return int(bench.client().info("memory")["used_memory"])


SCENARIO: Final = Scenario(
    name="escalation",
    title="Escalating what waited too long",
    question="What it costs to escalate 1,000 stale entries, depending on how many entries wait for a receipt.",
    run=_run,
)
