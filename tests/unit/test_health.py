"""What a worker's file tells of it, and what it is taken for."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.clock import ManualClock
from worker import health
from worker.health import Pulse, WorkerHealth

NOW_MS = 1_000_000
STALE_MS = 15_000


def told(**changes: Any) -> WorkerHealth:
    """Return what a healthy worker tells, with some of it changed."""
    given = {
        "node": "worker@host",
        "pid": 7,
        "written_at_ms": NOW_MS,
        "loop_turned_at_ms": NOW_MS,
        "ledger_reached_at_ms": NOW_MS,
        "consuming": True,
        **changes,
    }
    return WorkerHealth(**given)


@pytest.mark.parametrize(
    "found,live,ready",
    [
        (told(), True, True),
        (told(written_at_ms=NOW_MS - STALE_MS - 1), False, False),
        (told(loop_turned_at_ms=NOW_MS - STALE_MS - 1), False, False),
        (told(loop_turned_at_ms=0, consuming=False), True, False),
        (told(ledger_reached_at_ms=NOW_MS - STALE_MS - 1), True, False),
    ],
)
def test_live_and_ready(found: WorkerHealth, live: bool, ready: bool) -> None:
    """A stuck worker is not live; one that waits for a server is live and not ready."""
    assert (found.is_live(NOW_MS, STALE_MS), found.is_ready(NOW_MS, STALE_MS)) == (live, ready)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """The file holds what the worker's threads noted, at the time they noted it."""
    clock = ManualClock(1_000)
    pulse = Pulse(tmp_path, clock.now_ms)
    pulse.consuming(now=True)
    clock.advance(10)
    pulse.ledger_reached()
    clock.advance(10)

    pulse.write("worker@host")

    (found,) = health.read(tmp_path)
    assert (found.node, found.consuming) == ("worker@host", True)
    assert (found.loop_turned_at_ms, found.ledger_reached_at_ms, found.written_at_ms) == (1_000, 1_010, 1_020)


def test_a_worker_that_stopped_in_order_is_forgotten(tmp_path: Path) -> None:
    """Its file goes with it, so that nobody takes it for a dead one."""
    pulse = Pulse(tmp_path, lambda: 1)
    pulse.write("worker@host")

    pulse.forget("worker@host")

    assert health.read(tmp_path) == []


def test_a_broken_file_counts_as_no_worker(tmp_path: Path) -> None:
    """Half a file, or another program's, is passed over."""
    (tmp_path / "health").mkdir()
    (tmp_path / "health" / "a.json").write_text('{"node": "x"')
    (tmp_path / "health" / "b.json").write_text("{}")

    assert health.read(tmp_path) == []


def test_a_node_name_never_leaves_the_directory(tmp_path: Path) -> None:
    """A name with slashes is still one file of the directory."""
    pulse = Pulse(tmp_path, lambda: 1)

    pulse.write("../../etc/worker@host")

    assert [path.parent for path in tmp_path.rglob("*.json")] == [tmp_path / "health"]


def test_a_disk_that_takes_nothing_does_not_end_the_worker(tmp_path: Path) -> None:
    """A file that cannot be written makes the worker look dead; it goes on working."""
    (tmp_path / "health").write_text("a file where the directory should be")

    Pulse(tmp_path, lambda: 1).write("worker@host")

    assert (tmp_path / "health").is_file()
