"""The end of the demo: everything that was counted is collected, compared and shown."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from reliability.errors import ChioError
from worker.demo import delivery_summary, stack, summary
from worker.demo.delivery_summary import DeliveryFacts
from worker.demo.feeding import Feed, Feeding
from worker.demo.looks import Look
from worker.demo.partners import DOWN, Partners
from worker.demo.processes import Processes
from worker.demo.summary import Check, Facts
from worker.demo.told import Told
from worker.simulators import effect_log

_COUNTS: Final = ("admitted", "duplicates", "conflicts", "invalid")
_ALL: Final = "10000"
_SHOWN_DEAD_LETTERS: Final = "3"
_DELIVERY: Final = "delivery:"


class Accounts:
    """Ask every program of the stack for its numbers."""

    def __init__(self, processes: Processes, partners: Partners, told: Told, rail_effects: Path) -> None:
        self._processes = processes
        self._partners = partners
        self._told = told
        self._rail_effects = rail_effects

    def settle(self, console: Console, last: Look, feeding: Feeding, files: tuple[Path, Path]) -> bool:
        """Show what became of every line and say whether every check holds."""
        # What a worker told last may be newer than the look that ended the watch.
        list(self._told.follow())
        dead = frozenset(record["receipt_id"] for record in self._documents("dead-letters", "list", "--limit", _ALL))
        settlements = summary.checks(self._settlements(last, feeding.settlements, files[0], dead))
        deliveries = delivery_summary.checks(self._deliveries(last, feeding.deliveries, files[1], dead))
        _show(console, "settlement", settlements)
        _show(console, "delivery", deliveries)
        waits, jobs = self._told.waits.total(), len(self._told.waits)
        console.print(
            f"\n{DOWN}'s circuit opened {self._told.opened[DOWN]} times: {jobs} deliveries waited {waits} times"
        )
        console.print(f"\n{self._ask('dead-letters', 'list', '--limit', _SHOWN_DEAD_LETTERS)}")
        return all(check.holds for check in (*settlements, *deliveries))

    def _settlements(self, last: Look, feed: Feed, file: Path, dead: frozenset[str]) -> Facts:
        rail = effect_log.tally(effect_log.read(self._rail_effects))
        return Facts(
            file_lines=_lines(file),
            enqueued=_enqueued(feed),
            ledger=last.counts,
            dead=frozenset(receipt for receipt in dead if not receipt.startswith(_DELIVERY)),
            effects=rail.effects_per_key,
            differing_bodies=len(rail.keys_with_differing_bodies),
        )

    def _deliveries(self, last: Look, feed: Feed, file: Path, dead: frozenset[str]) -> DeliveryFacts:
        partners = self._partners.tally()
        circuits = {each["partner_id"]: each["circuit"] for each in self._documents("partners", "status")}
        return DeliveryFacts(
            file_lines=_lines(file),
            enqueued=_enqueued(feed),
            ledger=last.deliveries,
            dead=frozenset(job for job in dead if job.startswith(_DELIVERY)),
            effects=partners.effects_per_key,
            differing_bodies=len(partners.keys_with_differing_bodies),
            receipts=self._partners.confirmed(),
            escalated=self._told.escalated,
            opened=self._told.opened[DOWN],
            is_closed=circuits[DOWN] == "closed",
            waits=self._told.waits.total(),
            waits_that_spent=self._told.waits_that_spent,
        )

    def _documents(self, *arguments: str) -> Sequence[dict[str, Any]]:
        """Return the list in the document a command prints."""
        document = json.loads(self._ask(*arguments, "--json"))
        found: list[dict[str, Any]] = next(value for value in document.values() if isinstance(value, list))
        return found

    def _ask(self, *arguments: str) -> str:
        """Return what a command of the stack answers."""
        answer = subprocess.run(  # noqa: S603  # the project's own program
            stack.command(*arguments),
            env=self._processes.environment,
            cwd=self._processes.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if answer.returncode:
            raise ChioError(f"chio-worker {' '.join(arguments)} failed: {answer.stderr.strip()}")
        return answer.stdout


def _show(console: Console, kind: str, checks: Sequence[Check]) -> None:
    console.print(f"\nWhat became of every {kind}:")
    for check in checks:
        console.print(f"  {'ok    ' if check.holds else 'FAILED'}  {check.sentence}")


def _enqueued(feed: Feed) -> dict[str, int]:
    counted = feed.counted or {}
    return {name: counted[name] for name in _COUNTS}


def _lines(file: Path) -> int:
    return file.read_bytes().count(b"\n")
