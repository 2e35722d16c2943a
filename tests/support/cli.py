"""The command line on stores in memory: call it as a shell would, and see its exit code and both streams."""

import io
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import celery
import pytest

from storage.bundle import Storage, memory_storage
from tests.support.clock import ManualClock
from worker import cli
from worker.cli import station
from worker.cli.station import Station
from worker.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Hold what a call gave back."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, object]:
        """Return the JSON document on standard output."""
        found: dict[str, object] = json.loads(self.out)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine:
    """Run commands against one set of stores and one broker in memory."""

    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]
    clock: ManualClock = field(default_factory=ManualClock)
    storage: Storage
    app: celery.Celery

    def run(self, *arguments: str, stdin: bytes = b"") -> Answer:
        """Call `chio-worker` with the arguments."""
        self.monkeypatch.setattr(sys, "argv", ["chio-worker", *arguments])
        self.monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as ended:
            cli.main()
        streams = self.capsys.readouterr()
        return Answer(code=int(ended.value.code or 0), out=streams.out, err=streams.err)

    def published(self, queue: str) -> list[dict[str, object]]:
        """Take every message off a queue and return their keyword arguments."""
        taken = []
        with self.app.connection_for_read() as connection, connection.channel() as channel:
            while message := channel.basic_get(queue, no_ack=True):
                taken.append(json.loads(message.body)[1])
        return taken


def command_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """Make a command line whose station stands on memory."""
    clock = ManualClock()
    storage = memory_storage(clock)
    app = celery.Celery(broker="memory://", set_as_current=False)

    @contextmanager
    def opened() -> Iterator[Station]:
        yield Station(settings=Settings.load(), storage=storage)

    monkeypatch.setattr(station, "opened", opened)
    monkeypatch.setattr(station, "celery_app", lambda: app)
    made = CommandLine(monkeypatch=monkeypatch, capsys=capsys, clock=clock, storage=storage, app=app)
    # Brokers in memory share their queues within a process.
    made.published("settlement")
    return made
