"""
The results as one document, `benchmarks/results.json`: goals on top, then the machine, then what each scenario found.

A run of some scenarios replaces those and keeps the others. Every ratio is made inside one scenario, so nothing is
ever compared with a figure of another run.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

import pydantic

from benchmarks.figures import Findings, Goal

#: Where the results are kept, from the root of the checkout.
PATH: Final = Path("benchmarks/results.json")


class Machine(pydantic.BaseModel):
    """Say what was measured on, and with which versions."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    processor: str
    cores: int
    memory_gib: float
    kernel: str
    versions: dict[str, str]


class Entry(pydantic.BaseModel):
    """Hold one scenario's findings with when, how and on what they were made."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    name: str
    title: str
    question: str
    command: str
    measured_at: str
    quick: bool
    machine: Machine
    findings: Findings


class Document(pydantic.BaseModel):
    """Hold the entries in the order of the catalogue."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    entries: tuple[Entry, ...] = ()

    @property
    def goals(self) -> list[Goal]:
        """Return every scenario's goals."""
        return [goal for entry in self.entries for goal in entry.findings.goals]

    def with_entries(self, measured: Sequence[Entry], order: Sequence[str]) -> Self:
        """Return a document in which these entries stand in place of older ones, in the given order of names."""
        by_name = {entry.name: entry for entry in (*self.entries, *measured)}
        return type(self)(entries=tuple(by_name[name] for name in order if name in by_name))

    def to_json(self) -> str:
        """Return the text of the file."""
        goals = [goal.model_dump() for goal in self.goals]
        content = {"goals": goals, "entries": [entry.model_dump(mode="json") for entry in self.entries]}
        return json.dumps(content, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the text of the file; the goals on top repeat what the entries say and are not read."""
        return cls(entries=json.loads(text)["entries"])


def read(path: Path) -> Document:
    """Read the file; one that is not there is an empty document."""
    return Document.from_json(path.read_text(encoding="utf-8")) if path.exists() else Document()
