"""
Messages that nobody can read, on local disk, until the quarantine can take them.

Their broker does not have them any more: what is no message at all cannot be handed back, and the rest is acknowledged
so that the messages behind go on. Bounded as the quarantine is; the oldest goes when there is no room, with a warning.
"""

import fcntl
import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reliability.events import Event
from storage.quarantine import QuarantineBounds
from tasks.emit import warn
from worker.envelope import Defect
from worker.spool_folder import SpoolFolder

_SUFFIX: Final = ".message"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """Hold a message's bytes, the queue it came from and why it is kept."""

    raw: bytes
    queue: str
    reason: str


class QuarantineSpool:
    """Keep messages in one folder, one file each. Safe to use from several processes."""

    def __init__(self, folder: Path, bounds: QuarantineBounds, now_ms: Callable[[], int]) -> None:
        self._folder = SpoolFolder(folder, _SUFFIX)
        self._bounds = bounds
        self._now_ms = now_ms

    def __len__(self) -> int:
        return len(self._folder)

    def keep(self, message: SetAside) -> bool:
        """Write the message and sync it, then make room; False if the folder cannot be written."""
        digest = hashlib.sha256(message.raw).hexdigest()[:24]
        try:
            self._folder.write(self._now_ms(), digest, _file_of(message))
            self._make_room()
        except OSError:
            return False
        return True

    def flush(self, store: Callable[[SetAside], bool]) -> bool:
        """Hand over what waits, oldest first, until `store` says no; tell whether it never did."""
        for path in list(self._folder.entries()):
            with _mine(path) as content:
                if content is None:
                    continue
                if not store(_message_in(content)):
                    return False
                self._folder.forget(path)
        return True

    def _make_room(self) -> None:
        sizes = {path: path.stat().st_size for path in self._folder.entries()}
        entries, size_bytes = len(sizes), sum(sizes.values())
        for path, of_one in sizes.items():
            if entries == 1 or (entries <= self._bounds.max_entries and size_bytes <= self._bounds.max_bytes):
                return
            self._folder.forget(path)
            entries, size_bytes = entries - 1, size_bytes - of_one
            warn(Event.MESSAGE_QUARANTINED, why="dropped:no_room_on_disk", sha256=path.stem.rpartition("-")[2])


@contextmanager
def _mine(path: Path) -> Iterator[bytes | None]:
    """Give a file's content to one process at a time; None where another has it, or was done with it first."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        yield None
        return
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        yield file.read() if path.exists() else None


def _file_of(message: SetAside) -> bytes:
    head = json.dumps({"queue": message.queue, "reason": message.reason})
    return head.encode() + b"\n" + message.raw


def _message_in(content: bytes) -> SetAside:
    """Read a file; one that is none of ours is itself something that nobody can read."""
    head, _, raw = content.partition(b"\n")
    try:
        found = json.loads(head)
        return SetAside(raw=raw, queue=str(found["queue"]), reason=str(found["reason"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return SetAside(raw=content, queue="", reason=Defect.INTERNAL_ERROR)
