"""
What a simulated partner saw and did: one JSON line per request, written before the answer leaves.

The log is the account from outside that tests and the demo compare with the ledger: an effect that was carried out
twice, or a key that came with two bodies, shows here and nowhere else.
"""

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """Hold one request and what was done with it."""

    at_ms: int
    #: The idempotency key; empty where the request had none.
    key: str
    #: The how-manieth request with this key it was, from 1.
    attempt: int
    body_sha256: str
    #: The scripted step that was taken, or `repeat` or `mismatch` where the key was known.
    step: str
    #: The status that was answered, or what was done instead of answering.
    answer: str
    #: Whether this request's effect was carried out, by this request.
    effect: bool
    transcript_id: str = ""

    @classmethod
    def from_json(cls, line: str | bytes) -> Self:
        """Read one line of a log."""
        return cls(**json.loads(line))

    def to_json(self) -> str:
        """Write one line of a log, without its line feed."""
        return json.dumps(asdict(self), separators=(",", ":"))


class EffectLog:
    """Append entries to a file, each on disk's way before the next thing happens."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        _drop_torn_line(path)
        self._file = path.open("a", encoding="utf-8")

    def append(self, entry: LogEntry) -> None:
        """Write the entry and flush it, so that a reader sees it at once and a kill loses nothing."""
        self._file.write(f"{entry.to_json()}\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@dataclass(slots=True)
class Tally:
    """Count entries as they come."""

    requests: int = 0
    effects: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    requests_per_key: Counter[str] = field(default_factory=Counter)
    effects_per_key: Counter[str] = field(default_factory=Counter)
    _first_body: dict[str, str] = field(default_factory=dict)
    _differing: set[str] = field(default_factory=set)

    def add(self, entry: LogEntry) -> None:
        """Count one entry."""
        self.requests += 1
        self.answers[entry.answer] += 1
        if not entry.key:
            return
        self.requests_per_key[entry.key] += 1
        if entry.effect:
            self.effects += 1
            self.effects_per_key[entry.key] += 1
        if self._first_body.setdefault(entry.key, entry.body_sha256) != entry.body_sha256:
            self._differing.add(entry.key)

    @property
    def keys_with_differing_bodies(self) -> list[str]:
        """List the keys that came with more than one body: there must be none."""
        return sorted(self._differing)

    @property
    def keys_with_several_effects(self) -> list[str]:
        """List the keys whose effect was carried out more than once: there must be none."""
        return sorted(key for key, effects in self.effects_per_key.items() if effects > 1)

    def to_json(self) -> dict[str, object]:
        """Return the totals, without the counts per key."""
        return {
            "requests": self.requests,
            "keys": len(self.requests_per_key),
            "effects": self.effects,
            "answers": dict(sorted(self.answers.items())),
            "keys_with_differing_bodies": self.keys_with_differing_bodies,
            "keys_with_several_effects": self.keys_with_several_effects,
        }


def read(path: Path) -> Iterator[LogEntry]:
    """Read the entries of a log, also while it is written; a last line without its line feed is not there yet."""
    with path.open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):
                yield LogEntry.from_json(line)


def tally(entries: Iterable[LogEntry]) -> Tally:
    """Count all entries."""
    counted = Tally()
    for entry in entries:
        counted.add(entry)
    return counted


def _drop_torn_line(path: Path) -> None:
    """Cut off what a killed writer left of its last line, so that the next entry begins a line of its own."""
    if path.exists():
        content = path.read_bytes()
        os.truncate(path, content.rfind(b"\n") + 1)
