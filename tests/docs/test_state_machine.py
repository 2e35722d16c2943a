"""The page of states against the ledger: every operation is tried in every situation, on memory and on a server."""

import inspect
import itertools
import re
import typing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from storage import bundle, scripts
from storage.jobs import FinishedAs, JobState
from storage.scripts import Script
from tests.support import backends, transitions
from tests.support.transitions import Edge

PAGE: Final = (Path(__file__).parents[2] / "docs" / "state-machine.md").read_text(encoding="utf-8")
PLACES: Final = {transitions.UNKNOWN, *JobState, *FinishedAs, transitions.DEAD}
WHO: Final = {"producer", "worker", "pump", "beat", "operator"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Hold one line of the table of transitions."""

    edges: frozenset[Edge]
    scripts: frozenset[str]
    who: frozenset[str]


def test_every_place_is_explained() -> None:
    """The table of places names each state of a row, each ending, and nothing else."""
    named = [place for row in rows("Places") for place in code(row[0])]

    assert sorted(named) == sorted(PLACES)


def test_the_transitions_are_those_of_the_ledger() -> None:
    """The table has every change that any operation makes in any situation, each once, and none that it never makes."""
    written = sorted(edge for line in lines() for edge in line.edges)

    assert written == sorted(explored())


@pytest.mark.server
def test_the_server_makes_each_transition_with_the_script_that_is_named(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each change happens on a server too, and the scripts that run for a line's changes are those it names."""
    ran: list[str] = []
    digest_of = scripts.digest_of

    def noted(script: Script) -> str:
        ran.append(script.value)
        return digest_of(script)

    monkeypatch.setattr(scripts, "digest_of", noted)

    for number, line in enumerate(lines()):
        seen = set[str]()
        for step, edge in enumerate(sorted(line.edges)):
            bench = transitions.bench_on(backends.on_redis(redis_url, namespace=f"{number}-{step}:"))
            assert transitions.walked(bench, explored()[edge], before_last=ran.clear) == edge
            seen.update(ran)
        assert seen == line.scripts


def test_every_operation_is_on_the_page() -> None:
    """The two tables name every operation of every store, and no other."""
    moving = {edge.operation.partition("(")[0] for line in lines() for edge in line.edges}
    still = [operation for row in rows("What moves no row") for operation in code(row[0])]

    assert sorted([*moving, *still]) == sorted(operations())


def test_every_script_is_on_the_page() -> None:
    """The two tables name every script, none in both, and no other."""
    moving = {script for line in lines() for script in line.scripts}
    still = [script for row in rows("What moves no row") for script in code(row[1])]

    assert sorted([*moving, *still]) == sorted(Script)


def test_each_transition_says_who_may_do_it() -> None:
    """Each line names who asks for it, in the words that the page explains."""
    assert all(line.who and line.who <= WHO for line in lines())
    assert {who for line in lines() for who in line.who} == WHO
    assert all(f"*{who}*" in PAGE.lower() for who in WHO)


@cache
def explored() -> dict[Edge, transitions.Path]:
    """Return every change of a row, with a path to it."""
    return transitions.explored()


def lines() -> list[Line]:
    """Return the table of transitions; a line stands for every pair of its places, by each of its operations."""
    return [
        Line(
            edges=frozenset(
                Edge(operation=operation, source=source, target=target)
                for source, target, operation in itertools.product(code(row[0]), code(row[1]), code(row[2]))
            ),
            scripts=frozenset(code(row[3])),
            who=frozenset(row[4].split(", ")),
        )
        for row in rows("Transitions")
    ]


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the table below a heading, without its head."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    table = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]


def code(cell: str) -> list[str]:
    """Return what a cell names."""
    return re.findall(r"`([^`]+)`", cell)


def operations() -> list[str]:
    """Return every operation of every store by its name in the bundle."""
    stores = typing.get_type_hints(bundle.Storage).items()
    return [
        f"{store}.{name}"
        for store, protocol in stores
        for name, _ in inspect.getmembers(protocol, inspect.isfunction)
        if not name.startswith("_")
    ]
