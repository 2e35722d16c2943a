"""
Entries that wait on local disk while a store is away: a folder of files, each written whole, synced and private.

Knows nothing of what a file holds; `worker.outcome_spool` keeps outcomes in one, `worker.quarantine_spool` messages.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


class SpoolFolder:
    """Keep files of one suffix in one folder. Safe to use from several processes."""

    def __init__(self, path: Path, suffix: str) -> None:
        self._path = path
        self._suffix = suffix

    def __len__(self) -> int:
        return sum(1 for _ in self._names())

    def entries(self) -> Iterator[Path]:
        """Yield the files, oldest first."""
        yield from sorted(self._names())

    def write(self, at_ms: int, name: str, content: bytes) -> None:
        """
        Put a file where a crash leaves it whole or not there; its place follows the instant, then the name.

        Raises:
            OSError: The disk did not take it.

        """
        self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._path / f"{at_ms:015d}-{name}{self._suffix}"
        draft = path.with_suffix(".new")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        _sync(self._path)

    def forget(self, path: Path) -> None:
        """Remove a file that is done with."""
        path.unlink(missing_ok=True)

    def _names(self) -> Iterator[Path]:
        with suppress(FileNotFoundError):
            yield from self._path.glob(f"*{self._suffix}")


def _sync(folder: Path) -> None:
    """Have the folder's new entry on disk too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
