"""The verdict of a run counts what is lost, twice or stuck, and nothing that is explained."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from reliability.dead_letter import DeadLetterRecord
from storage.bundle import Storage
from storage.jobs import Bury, Claim, Finish, FinishedAs, NewJob
from tests.chaos import score as scores
from tests.chaos.score import Account, Score
from tests.chaos.work import RAIL_WAYS, Piece, Way
from tests.support import backends, builders, fleet, poison
from worker.simulators.effect_log import LogEntry, Tally, tally

WELL: Way = next(way for way in RAIL_WAYS if way.name == "well")
REFUSED: Way = next(way for way in RAIL_WAYS if way.name == "refused")


@pytest.fixture
def storage() -> Storage:
    """Give stores in memory."""
    return backends.memory().storage


def ended(storage: Storage, finished_as: FinishedAs | None = FinishedAs.SETTLED) -> NewJob:
    """Bring a job to its end: well, or dead where nothing is given."""
    job = fleet.settlement("rcpt-1")
    claim = builders.admitted_and_claimed(storage.jobs, job)
    storage.jobs.record(claim, Finish(finished_as=finished_as) if finished_as else Bury(record=_record(claim)))
    return job


def seen(*, effect: bool = True, body: str = "a") -> LogEntry:
    """Return a line of the rail's log."""
    return LogEntry(at_ms=1, key="rcpt-1", attempt=1, body_sha256=body, step="ok", answer="200", effect=effect)


def judge(
    storage: Storage,
    job: NewJob,
    *lines: LogEntry,
    way: Way = WELL,
    attempts: int | None = None,
    poisoned: Sequence[bytes] = (),
) -> Score:
    """Judge a run of one job."""
    return scores.judge(
        Account(
            told={job.job_id: Piece(job=job, way=way)},
            offered={},
            storage=storage,
            tallies=(tally(lines), Tally()),
            attempts={} if attempts is None else {job.job_id: attempts},
            poisoned=poisoned,
        )
    )


def test_a_settled_job_with_its_effect_is_clean(storage: Storage) -> None:
    """One job, one effect, three zeros."""
    score = judge(storage, ended(storage), seen(), attempts=1)

    assert score.is_clean
    assert score.last_line() == "lost 0 duplicated 0 stuck 0 recovered 0 longest_recovery_s 0.0"


def test_a_job_that_ended_nowhere_is_lost(storage: Storage) -> None:
    """What the ledger said yes to and knows nothing of is lost."""
    assert len(judge(storage, fleet.settlement("rcpt-1")).lost) == 1


def test_a_settled_job_without_its_effect_is_lost(storage: Storage) -> None:
    """The ledger says settled and the rail has never settled it."""
    assert len(judge(storage, ended(storage), seen(effect=False)).lost) == 1


def test_a_job_in_flight_is_stuck(storage: Storage) -> None:
    """What has not ended when everything is well is stuck."""
    job = fleet.settlement("rcpt-1")
    storage.jobs.admit(job)

    assert judge(storage, job).stuck == ["rcpt-1"]


@pytest.mark.parametrize(
    "lines", [[seen(), seen()], [seen(), seen(effect=False, body="b")]], ids=["two effects", "two bodies"]
)
def test_an_effect_or_a_body_too_many_is_twice(storage: Storage, lines: list[LogEntry]) -> None:
    """Two effects, or two bodies under one key, are never explained."""
    assert len(judge(storage, ended(storage), *lines).duplicated) == 1


def test_a_repeat_within_the_attempts_is_explained(storage: Storage) -> None:
    """A second request with the same bytes belongs to a second attempt; a third one to nothing."""
    job = ended(storage)
    lines = [seen(), seen(effect=False)]

    explained, unexplained = judge(storage, job, *lines, attempts=2), judge(storage, job, *lines, attempts=1)

    assert explained.is_clean
    assert explained.facts["repeats beyond the script, with the same key and bytes"] == 1
    assert len(unexplained.duplicated) == 1


def test_a_refused_job_that_settled_is_a_finding(storage: Storage) -> None:
    """A job that can only be refused must not end well."""
    assert len(judge(storage, ended(storage), seen(), way=REFUSED).findings) == 1


def test_a_dead_job_is_told_by_what_it_should_have_been(storage: Storage) -> None:
    """A dead letter is right for a job that can only be refused, and told apart for any other."""
    job = ended(storage, None)

    right, spent = judge(storage, job, way=REFUSED), judge(storage, job)

    assert right.facts["endings"] == {"dead as it must be": 1}
    assert spent.facts["endings"] == {"dead with its attempts spent on faults": 1}


def test_a_message_that_is_no_poison_is_a_finding(storage: Storage) -> None:
    """Nothing that this project sent may be in quarantine."""
    job = ended(storage)
    storage.quarantine.keep(b"one of ours", "settlement", "malformed_headers")

    assert len(judge(storage, job, seen()).findings) == 1


@pytest.mark.parametrize("name", sorted(poison.POISON))
@pytest.mark.parametrize("came_again", [False, True])
def test_poison_is_known_again(storage: Storage, name: str, came_again: bool) -> None:
    """Also after a worker was killed with it in hand: kombu gives it back with a note in it."""
    raw, _ = poison.POISON[name]
    storage.quarantine.keep(restored(raw) if came_again else raw, "settlement", "undecodable")

    assert judge(storage, ended(storage), seen(), poisoned=[raw]).is_clean


def restored(raw: bytes) -> bytes:
    """Return what kombu puts back for a message whose worker is gone, where it can read it."""
    try:
        message = json.loads(raw)
        message["headers"]["redelivered"] = True
        message["properties"]["delivery_info"]["redelivered"] = True
    except (ValueError, TypeError, KeyError, RecursionError):
        return raw
    return json.dumps(message).encode()


def test_attempts_are_read_from_the_logs(tmp_path: Path) -> None:
    """The last line of a job says how many attempts it took; a line that was cut off says nothing."""
    log = tmp_path / "worker.log"
    log.write_text(
        '{"event": "settlement.settled", "job_id": "a", "attempt": 2}\n'
        '{"event": "settlement.dead_lettered", "job_id": "b", "attempts": 6}\n'
        '{"event": "settlement.retry_scheduled", "job_id": "c", "attempt": 1}\n'
        '{"event": "settlement.settled", "job_id": "d", "att',
        encoding="utf-8",
    )

    assert scores.attempts_told([log]) == {"a": 3, "b": 6}


def _record(claim: Claim) -> DeadLetterRecord:
    return builders.dead_letter(claim.job_id, claim.finalized_at)
