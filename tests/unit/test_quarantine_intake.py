"""Messages that nobody can read, while the quarantine's store is away: on disk, bounded, and in the store later."""

import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from reliability.errors import StorageUnavailableError
from storage.quarantine import InMemoryQuarantineStorage, QuarantineBounds, QuarantineEntry
from tests.support.clock import ManualClock
from worker import quarantine, quarantine_spool
from worker.envelope import Defect
from worker.quarantine import QuarantineIntake
from worker.quarantine_spool import QuarantineSpool


@dataclass
class Store:
    """A quarantine that is up or down."""

    is_down: bool = True
    memory: InMemoryQuarantineStorage = field(
        default_factory=lambda: InMemoryQuarantineStorage(QuarantineBounds(), lambda: 7)
    )
    calls: int = 0

    def keep(self, raw: bytes, queue: str, reason: str) -> QuarantineEntry:
        """Keep, unless down."""
        self.calls += 1
        if self.is_down:
            raise StorageUnavailableError("keep", queue)
        return self.memory.keep(raw, queue, reason)

    def kept(self) -> list[bytes | None]:
        """Return the bytes that are in it, oldest first."""
        return [self.memory.raw(entry.entry_id) for entry in self.memory.list(10)]


@dataclass
class Host:
    """A data directory on which worker after worker runs."""

    folder: Path
    store: Any = field(default_factory=Store)
    bounds: QuarantineBounds = field(default_factory=QuarantineBounds)
    clock: ManualClock = field(default_factory=ManualClock)

    def worker(self) -> QuarantineIntake:
        """Start a process: it knows what is on disk and nothing else."""
        return QuarantineIntake(lambda: self.store, self.spool())

    def spool(self) -> QuarantineSpool:
        """Return the folder's spool."""
        return QuarantineSpool(self.folder, self.bounds, self.clock.now_ms)

    def set_aside(self, intake: QuarantineIntake, *messages: bytes) -> None:
        """Keep each message, one a millisecond."""
        for raw in messages:
            intake.keep(raw, "settlement", Defect.UNDECODABLE)
            self.clock.advance(1)

    def store_is_back(self, intake: QuarantineIntake) -> None:
        """Let the store answer again, and the pump take a turn."""
        self.store.is_down = False
        intake.flush()


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """Give a host whose store is down."""
    return Host(folder=tmp_path / "spool" / "quarantine")


def test_a_message_waits_on_disk_while_the_quarantine_is_down(host: Host) -> None:
    """While the store is down messages wait on disk, without asking it for each, and are stored in their order."""
    intake = host.worker()

    host.set_aside(intake, b"1", b"2\n\x00\xff", b"3")
    asked_while_down, waiting = host.store.calls, len(host.spool())
    host.store_is_back(intake)

    assert (asked_while_down, waiting, len(host.spool())) == (1, 3, 0)
    assert host.store.kept() == [b"1", b"2\n\x00\xff", b"3"]
    assert {(entry.queue, entry.reason) for entry in host.store.memory.list(10)} == {("settlement", "undecodable")}


def test_a_message_outlives_the_worker_that_set_it_aside(host: Host) -> None:
    """A worker is killed while the store is down: the next one on the host stores what it had acknowledged."""
    host.set_aside(host.worker(), b"1", b"2")

    host.store_is_back(host.worker())

    assert host.store.kept() == [b"1", b"2"]


def test_the_store_is_asked_again_once_it_took_what_waited(host: Host) -> None:
    """After the outage a message goes to the store at once, and leaves nothing on disk."""
    intake = host.worker()
    host.set_aside(intake, b"1")
    host.store_is_back(intake)

    host.set_aside(intake, b"2")

    assert host.store.kept() == [b"1", b"2"]
    assert not any(host.folder.iterdir())


def test_an_interrupted_turn_goes_on_where_it_stopped(host: Host) -> None:
    """While the store stays down a turn asks it once, and everything is still there."""
    intake = host.worker()
    host.set_aside(intake, b"1", b"2")

    intake.flush()

    assert (host.store.calls, len(host.spool())) == (2, 2)


@pytest.mark.parametrize(
    "bounds", [QuarantineBounds(max_entries=2), QuarantineBounds(max_bytes=130)], ids=["entries", "bytes"]
)
def test_the_disk_is_bounded(host: Host, bounds: QuarantineBounds, capsys: pytest.CaptureFixture[str]) -> None:
    """When too much waits, the oldest is dropped with a warning that names its digest."""
    host.bounds = bounds
    intake = host.worker()

    host.set_aside(intake, b"1", b"2", b"3")
    host.store_is_back(intake)

    assert host.store.kept() == [b"2", b"3"]
    assert "dropped:no_room_on_disk" in capsys.readouterr().out


def test_the_newest_is_kept_whatever_its_size(host: Host) -> None:
    """A message larger than all the room is kept alone, as in the store."""
    host.bounds = QuarantineBounds(max_bytes=10)
    intake = host.worker()

    host.set_aside(intake, b"1", b"x" * 1_000)
    host.store_is_back(intake)

    assert host.store.kept() == [b"x" * 1_000]


def test_two_workers_store_a_message_once(host: Host) -> None:
    """What one worker is storing, another on the same host leaves alone."""
    host.set_aside(host.worker(), b"1")
    beside = host.worker()
    host.store.is_down = False

    def store(message: quarantine_spool.SetAside) -> bool:
        beside.flush()
        return bool(host.store.keep(message.raw, message.queue, message.reason))

    host.spool().flush(store)

    assert host.store.kept() == [b"1"]


def test_a_file_that_is_no_entry_is_quarantined_itself(host: Host) -> None:
    """A damaged file blocks nothing and is not lost: all of it goes to the quarantine."""
    host.set_aside(host.worker(), b"1")
    (host.folder / "0.message").write_bytes(b"torn")

    host.store_is_back(host.worker())

    assert host.store.kept() == [b"torn", b"1"]


def test_nobody_else_may_read_what_waits(host: Host) -> None:
    """The messages are payloads: folder and files are their owner's alone."""
    host.set_aside(host.worker(), b"1")

    (path,) = host.folder.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_without_a_disk_a_bounded_number_waits_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the folder cannot be made messages wait in memory, and the oldest is dropped past the bound."""
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    monkeypatch.setattr(quarantine, "MAX_WAITING", 2)
    host = Host(folder=tmp_path / "file" / "spool")
    intake = host.worker()

    host.set_aside(intake, b"1", b"2", b"3")
    waiting = intake.waiting
    host.store_is_back(intake)

    assert (waiting, intake.waiting) == (2, 0)
    assert host.store.kept() == [b"2", b"3"]
