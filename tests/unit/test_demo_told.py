"""What the demo reads out of its workers' logs."""

import json
from pathlib import Path

from worker.demo.told import Told


def write(folder: Path, name: str, *events: dict[str, object]) -> None:
    """Add events to a worker's log, as a worker writes them."""
    with (folder / name).open("a") as log:
        log.writelines(f"{json.dumps(event)}\n" for event in events)


def deferred(job_id: str, attempt: int) -> dict[str, object]:
    """Return what a worker tells of a wait."""
    return {"event": "delivery.deferred", "job_id": job_id, "attempt": attempt, "delay_ms": 1, "why": "circuit open"}


def failed(job_id: str, attempt: int) -> dict[str, object]:
    """Return what a worker tells of a failed attempt."""
    return {"event": "delivery.retry_scheduled", "job_id": job_id, "attempt": attempt, "code": "rpc"}


def test_incidents_are_told_once(tmp_path: Path) -> None:
    """Each line is read once, from every worker's log, whatever else stands in it."""
    told = Told(tmp_path)
    (tmp_path / "worker-1.log").write_text("  a banner\n")
    write(tmp_path, "worker-1.log", {"event": "incident.opened", "partner_id": "harbour", "opened_at_ms": 1})
    first = list(told.follow())
    write(tmp_path, "worker-2.log", {"event": "incident.closed", "partner_id": "harbour", "opened_at_ms": 1})

    second = list(told.follow())

    assert [sentence.partition(":")[0] for sentence in (*first, *second)] == ["incident.opened", "incident.closed"]
    assert list(told.follow()) == []
    assert (told.opened["harbour"], told.closed["harbour"]) == (1, 1)


def test_half_a_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    """A worker may be in the middle of writing."""
    told, line = Told(tmp_path), json.dumps(deferred("a", 0))
    log = tmp_path / "worker-1.log"
    log.write_text(line[:10])
    list(told.follow())

    log.write_text(f"{line}\n")
    list(told.follow())

    assert told.waits == {"a": 1}


def test_waits_keep_their_attempt(tmp_path: Path) -> None:
    """A wait is at the first attempt, or after one that failed; any other has spent one."""
    told = Told(tmp_path)
    write(tmp_path, "worker-1.log", deferred("a", 0), deferred("a", 0), failed("b", 0), deferred("b", 1))
    write(tmp_path, "worker-2.log", deferred("c", 0), deferred("c", 1))

    list(told.follow())

    assert told.waits == {"a": 2, "b": 1, "c": 2}
    assert told.waits_that_spent == 1


def test_escalations_are_counted(tmp_path: Path) -> None:
    """Each job's, however often."""
    told = Told(tmp_path)
    escalated: dict[str, object] = {
        "event": "reconciliation.escalated",
        "job_id": "a",
        "partner_id": "ember",
        "key": "k",
    }
    write(tmp_path, "worker-1.log", escalated, escalated)

    list(told.follow())

    assert told.escalated == {"a": 2}
