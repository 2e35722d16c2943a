"""`chio-worker status` and the counts behind it."""

from collections.abc import Mapping

import pytest

from storage.jobs import Bury, Finish, FinishedAs, JobKind, JobState, LedgerCounts
from tests.support import builders
from tests.support.cli import CommandLine, command_line
from worker.cli import census


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """Return a command line on stores in memory."""
    return command_line(monkeypatch, capsys)


def settlement_of(document: Mapping[str, object]) -> Mapping[str, object]:
    """Return the settlements' part of a status document."""
    kinds = document["kinds"]
    assert isinstance(kinds, dict)
    found: Mapping[str, object] = kinds["settlement"]
    return found


def test_every_place_of_a_job_is_counted(line: CommandLine) -> None:
    """One job settled, one dead, one running and one waiting are each counted once, and add up."""
    jobs = line.storage.jobs
    jobs.record(builders.admitted_and_claimed(jobs, builders.job("a")), Finish(finished_as=FinishedAs.SETTLED))
    jobs.record(builders.admitted_and_claimed(jobs, builders.job("b")), Bury(record=builders.dead_letter("b")))
    builders.admitted_and_claimed(jobs, builders.job("c"))
    jobs.admit(builders.job("d"))
    jobs.admit(builders.job("d"))
    jobs.admit(builders.job("d", payload=b"other"))

    answer = line.run("status", "--json")

    assert (answer.code, answer.document["balanced"]) == (0, True)
    assert settlement_of(answer.document) == {
        "admitted": 4,
        "settled": 1,
        "skipped": 0,
        "confirmed": 0,
        "cancelled": 0,
        "dead": 1,
        "in_flight": 2,
        "in_flight_by_state": {"outstanding": 1, "leased": 1, "parked": 0, "awaiting": 0, "held": 0},
        "retried": 0,
        "duplicates": 1,
        "conflicts": 1,
        "balanced": True,
    }


def test_what_waits_beside_the_ledger_is_counted(line: CommandLine) -> None:
    """Reconciliation, quarantine, stored dead letters and the feed that is owed are in the document."""
    line.storage.reconciliation.enqueue(builders.pending())
    line.storage.quarantine.keep(b"garbage", "settlement", "undecodable")
    line.storage.dead_letters.append(builders.dead_letter("b"))

    document = line.run("status", "--json").document

    assert document["reconciliation"] == {"indeterminate": 0, "pending_verification": 1}
    assert document["dead_letters"] == {"stored": 1, "feed_owed": 1}
    assert document["quarantine"] == {"entries": 1, "size_bytes": 7, "kept": 1, "dropped": 0}


def test_table_says_that_the_numbers_add_up(line: CommandLine) -> None:
    """A person reads the counts of both kinds and the sentence that they add up."""
    answer = line.run("status")

    assert answer.code == 0
    assert "settlement" in answer.out
    assert "delivery" in answer.out
    assert "dead + in flight = admitted" in answer.out


def test_numbers_that_do_not_add_up_end_with_one(line: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a job is nowhere, the exit code is 1, the document says so, and the table names the kind."""

    def counts(kind: JobKind) -> LedgerCounts:
        return LedgerCounts(admitted=2, dead=1) if kind is JobKind.SETTLEMENT else LedgerCounts()

    monkeypatch.setattr(line.storage.jobs, "counts", counts)

    as_json, as_table = line.run("status", "--json"), line.run("status")

    assert (as_json.code, as_json.document["balanced"]) == (1, False)
    assert as_table.code == 1
    assert "settlement do not add up" in as_table.out


@pytest.mark.parametrize(
    "counts",
    [
        LedgerCounts(admitted=5, dead=1, finished={FinishedAs.SETTLED: 2}, in_flight={JobState.PARKED: 2}),
        LedgerCounts(admitted=2, finished={FinishedAs.CONFIRMED: 1, FinishedAs.CANCELLED: 1}),
        LedgerCounts(),
    ],
)
def test_balance_counts_every_place_once(counts: LedgerCounts) -> None:
    """Ended, dead and in flight together are what was admitted."""
    assert census.is_balanced(counts)


def test_watch_prints_one_document_a_look(line: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Off a terminal, --watch --json prints a line for each look until it is interrupted, and ends with 0."""
    pauses = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("worker.cli.watching.time.sleep", pause)

    answer = line.run("status", "--watch", "--json", "--interval-s", "0.5")

    assert answer.code == 0
    assert pauses == [0.5, 0.5, 0.5]
    assert len(answer.out.splitlines()) == 3
