"""`chio-worker reconciliation`."""

from collections.abc import Mapping
from datetime import timedelta

import pytest

from reliability import clock
from reliability.reconciliation import ReconciliationReason, ReconciliationRequest
from storage.jobs import Await, FinishedAs, JobKind, JobState, NewJob, Reschedule
from tests.support import builders
from tests.support.cli import CommandLine, command_line
from worker.cli import census

JOB_ID = "delivery:acme:msg-1"
KEY = builders.pending().idempotency_key


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """Return a command line on stores in memory."""
    return command_line(monkeypatch, capsys)


def awaiting(line: CommandLine, request: ReconciliationRequest | None = None, job: NewJob | None = None) -> str:
    """Let a job wait for its receipt; return the entry's key."""
    entry = request or builders.pending()
    claim = builders.admitted_and_claimed(line.storage.jobs, job or builders.delivery_job())
    line.storage.jobs.record(claim, Await(request=entry))
    return entry.idempotency_key


def ended(line: CommandLine, kind: JobKind = JobKind.DELIVERY) -> Mapping[str, int]:
    """Return how the jobs of a kind ended; ledger and reconciliation have to agree."""
    counts = line.storage.jobs.counts(kind)
    assert census.take(line.storage).is_balanced
    assert sum(line.storage.reconciliation.counts().values()) == 0
    assert sum(counts.in_flight.values()) == 0
    return {**{how.value: number for how, number in counts.finished.items() if number}, "dead": counts.dead}


def test_entries_are_listed_the_oldest_first(line: CommandLine) -> None:
    """Each entry has key, job, reason and age; all are counted, also those past the limit."""
    now = clock.utc_now()
    for number, hours in enumerate((1, 3, 2)):
        line.storage.reconciliation.enqueue(builders.pending(f"m{number}", at=now - timedelta(hours=hours)))
    line.storage.reconciliation.enqueue(builders.indeterminate("m3", at=now - timedelta(hours=4)))

    answer = line.run("reconciliation", "list", "--limit", "3", "--json")

    entries = answer.document["entries"]
    assert isinstance(entries, list)
    assert [entry["job_id"] for entry in entries] == [f"delivery:acme:m{number}" for number in (3, 1, 2)]
    assert [entry["age_s"] // 3600 for entry in entries] == [4, 3, 2]
    assert answer.document["queued"] == {"indeterminate": 1, "pending_verification": 3}


def test_entries_of_one_reason_are_listed_alone(line: CommandLine) -> None:
    """A person sees a table of those that wait for a receipt, without the others."""
    line.storage.reconciliation.enqueue(builders.pending("waits"))
    line.storage.reconciliation.enqueue(builders.indeterminate("unknown"))

    answer = line.run("reconciliation", "list", "--reason", "pending_verification")

    assert answer.code == 0
    assert "delivery:acme:waits" in answer.out
    assert "delivery:acme:unknown" not in answer.out
    assert "Unconfirmed, 1 of 2" in answer.out


@pytest.mark.parametrize("name", [KEY, JOB_ID])
@pytest.mark.parametrize("word,how", [("confirmed", {"confirmed": 1, "dead": 0}), ("failed", {"dead": 1})])
def test_an_operator_ends_entry_and_job_together(
    line: CommandLine, name: str, word: str, how: Mapping[str, int]
) -> None:
    """Under its key or its job's id, confirmed or failed: neither is left behind."""
    awaiting(line)

    answer = line.run("reconciliation", "resolve", name, "--as", word, "--yes", "--json")

    assert (answer.code, answer.document) == (0, {"key": KEY, "job_id": JOB_ID, "result": "ended"})
    assert ended(line) == how


def test_a_failed_one_is_a_dead_letter_with_its_payload(line: CommandLine) -> None:
    """It can be replayed like any other, and tells no more than that verification failed."""
    awaiting(line)

    line.run("reconciliation", "resolve", KEY, "--as", "failed", "--yes")

    record = line.storage.dead_letters.get(JOB_ID)
    assert record is not None
    assert (record.attempts, record.reason.code.value) == (1, "verification")
    assert line.storage.dead_letters.payload(JOB_ID) is not None


def test_a_settlement_ends_as_settled(line: CommandLine) -> None:
    """A rail's pending settlement is resolved by its receipt id."""
    request = ReconciliationRequest.new(
        ReconciliationReason.PENDING_VERIFICATION, "rcpt-1", "settlement", builders.CREATED_AT
    )
    awaiting(line, request, builders.job())

    answer = line.run("reconciliation", "resolve", "rcpt-1", "--as", "confirmed", "--yes")

    assert answer.code == 0
    assert ended(line, JobKind.SETTLEMENT) == {FinishedAs.SETTLED.value: 1, "dead": 0}


def test_an_attempt_that_runs_loses_its_claim(line: CommandLine) -> None:
    """An indeterminate delivery that is being sent again ends by the operator's word."""
    claim = builders.admitted_and_claimed(line.storage.jobs, builders.delivery_job())
    again = Reschedule(attempt=1, delay_ms=0, publishes=True, pending=builders.indeterminate())
    line.storage.jobs.record(claim, again)
    builders.claimed(line.storage.jobs, JOB_ID, attempt=1)

    answer = line.run("reconciliation", "resolve", JOB_ID, "--as", "confirmed", "--yes")

    assert answer.code == 0
    assert ended(line) == {"confirmed": 1, "dead": 0}


def test_an_entry_without_a_job_is_cleared(line: CommandLine) -> None:
    """What was left behind goes, and nothing else changes."""
    line.storage.reconciliation.enqueue(builders.pending())

    answer = line.run("reconciliation", "resolve", KEY, "--as", "confirmed", "--yes", "--json")

    assert (answer.code, answer.document["result"]) == (0, "cleared")
    assert ended(line) == {"dead": 0}


def test_a_word_that_contradicts_changes_nothing(line: CommandLine) -> None:
    """A job that ended confirmed stays confirmed, whatever is said of an entry that was left."""
    awaiting(line)
    line.run("reconciliation", "resolve", KEY, "--as", "confirmed", "--yes")
    line.storage.reconciliation.enqueue(builders.indeterminate())

    answer = line.run("reconciliation", "resolve", JOB_ID, "--as", "failed", "--yes", "--json")

    assert (answer.code, answer.document["result"]) == (1, "contradicted")
    assert line.storage.jobs.counts(JobKind.DELIVERY).finished[FinishedAs.CONFIRMED] == 1


def test_what_was_not_sent_cannot_be_confirmed(line: CommandLine) -> None:
    """An entry whose job was never attempted stays, and so does the job."""
    line.storage.jobs.admit(builders.delivery_job())
    line.storage.reconciliation.enqueue(builders.pending())

    answer = line.run("reconciliation", "resolve", KEY, "--as", "confirmed", "--yes", "--json")

    assert (answer.code, answer.document["result"]) == (1, "not_sent")
    assert line.storage.jobs.get(JOB_ID) is not None


@pytest.mark.parametrize(
    "arguments", [("resolve", "nobody", "--as", "confirmed"), ("escalate", "nobody"), ("escalate", KEY)]
)
def test_an_unknown_entry_is_named(line: CommandLine, arguments: tuple[str, ...]) -> None:
    """Nothing by that name ends with 1 and says where to look."""
    answer = line.run("reconciliation", *arguments, "--yes")

    assert answer.code == 1
    assert "look with: chio-worker reconciliation list" in answer.err


@pytest.mark.parametrize("arguments", [("resolve", KEY, "--as", "confirmed"), ("escalate",), ("escalate", KEY)])
def test_nothing_is_done_without_being_asked(line: CommandLine, arguments: tuple[str, ...]) -> None:
    """Where nobody can be asked, --yes is needed, and nothing is changed without it."""
    awaiting(line)

    answer = line.run("reconciliation", *arguments)

    assert answer.code == 2
    assert "--yes" in answer.err
    assert line.storage.reconciliation.find(KEY) is not None


def test_the_sweep_escalates_what_waited_too_long(line: CommandLine) -> None:
    """By the setting's age, or by another that is given; each job is due at once."""
    now = clock.utc_now()
    for name, minutes in (("old", 90), ("middle", 30), ("young", 1)):
        awaiting(line, builders.pending(name, at=now - timedelta(minutes=minutes)), builders.delivery_job("acme", name))

    first = line.run("reconciliation", "escalate", "--yes", "--json")
    second = line.run("reconciliation", "escalate", "--older-than-s", "600", "--yes", "--json")

    assert first.document == {"escalated": 1, "job_ids": ["delivery:acme:old"]}
    assert second.document == {"escalated": 1, "job_ids": ["delivery:acme:middle"]}
    parked = line.storage.jobs.rows(JobState.PARKED, 10)
    assert {row.job_id for row in parked} == {"delivery:acme:old", "delivery:acme:middle"}


def test_one_entry_is_escalated_whatever_its_age(line: CommandLine) -> None:
    """It is chased at once, once: the second time nothing waits under that name any more."""
    awaiting(line, builders.pending(at=clock.utc_now()))

    answers = [line.run("reconciliation", "escalate", JOB_ID, "--yes").code for _ in range(2)]

    assert answers == [0, 1]
    assert line.storage.reconciliation.counts() == {"indeterminate": 1, "pending_verification": 0}
