"""
The demo from beginning to end: start, feed, watch, add up.

Called by `worker.demo.__main__`. Every number it compares was printed by a program of the stack.
"""

import json
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from reliability.errors import ChioError
from worker.demo import stack, summary
from worker.demo.faults import FaultPlan, Faults
from worker.demo.looks import Look, Looks
from worker.demo.picture import Picture
from worker.demo.processes import Child, Processes
from worker.simulators import effect_log

#: How long the whole file may take, recovery after a fault included, in seconds.
RUN_LIMIT_S: Final = 150.0
#: Enqueueing a file with refused lines ends with 1.
_ENQUEUE_FINE: Final = frozenset({0, 1})
_ALL: Final = "10000"
_SHOWN_DEAD_LETTERS: Final = "3"
_POLL_S: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Say what is fed, how the rail behaves, and what goes wrong."""

    observations: Path
    rail_script: Path
    faults: FaultPlan


class Story:
    """Tell one demo on a console, with programs that somebody else ends."""

    def __init__(self, plan: Plan, processes: Processes, console: Console) -> None:
        self._plan = plan
        self._processes = processes
        self._console = console
        self._effects = processes.folder / "rail-effects.jsonl"

    def tell(self) -> bool:
        """
        Run it all and say whether every check holds.

        Raises:
            ChioError: A program ended by itself, or nothing happened for too long.

        """
        self._console.print("Starting the server, the rail, a worker, beat and Flower ...")
        worker, flower = self._start()
        self._console.print(f"Flower shows the tasks at {flower} while this runs.")
        looks = Looks(self._processes)
        enqueueing = self._processes.start(
            "enqueue", stack.command("enqueue", "settlement", str(self._plan.observations), "--json")
        )
        with Picture(self._console, f"chio-worker demo, Flower at {flower}") as picture:
            last = self._watch(looks, enqueueing, picture, Faults(self._plan.faults, self._processes, worker))
        return self._add_up(last, _document(enqueueing.written()))

    def _start(self) -> tuple[Child, str]:
        stack.start_server(self._processes)
        stack.start_rail(self._processes, self._plan.rail_script, self._effects)
        worker = stack.start_worker(self._processes, "worker-1")
        stack.start_beat(self._processes)
        flower = stack.start_flower(self._processes)
        stack.wait_for_worker(self._processes, worker)
        return worker, flower

    def _watch(self, looks: Looks, enqueueing: Child, picture: Picture, faults: Faults) -> Look:
        """Show every look until all jobs of the file have ended."""
        deadline_s = time.monotonic() + RUN_LIMIT_S
        while time.monotonic() < deadline_s:
            enqueued = self._enqueued(enqueueing)
            self._processes.check()
            look = looks.newest()
            picture.show(look)
            for done in faults.strike(look):
                picture.tell(done)
            # A look may be older than the end of the feeding: only one that counts every admitted job is the last.
            if enqueued and look.counts["admitted"] == enqueued["admitted"] and not look.counts["in_flight"]:
                return look
            time.sleep(_POLL_S)
        raise ChioError(
            f"not every job has ended after {RUN_LIMIT_S:g} s; look at the logs in {self._processes.folder}"
        )

    def _enqueued(self, enqueueing: Child) -> Mapping[str, Any] | None:
        """Return what the feeding counted, None while it runs."""
        if not self._processes.finished(enqueueing, _ENQUEUE_FINE):
            return None
        return _document(enqueueing.written())

    def _add_up(self, last: Look, enqueued: Mapping[str, Any]) -> bool:
        dead = json.loads(self._ask("dead-letters", "list", "--limit", _ALL, "--json"))["records"]
        rail = effect_log.tally(effect_log.read(self._effects))
        facts = summary.Facts(
            file_lines=self._plan.observations.read_bytes().count(b"\n"),
            enqueued={name: enqueued[name] for name in ("admitted", "duplicates", "conflicts", "invalid")},
            ledger=last.counts,
            dead=frozenset(record["receipt_id"] for record in dead),
            effects=rail.effects_per_key,
            differing_bodies=len(rail.keys_with_differing_bodies),
        )
        checks = summary.checks(facts)
        self._console.print("\nWhat became of every line:")
        for check in checks:
            self._console.print(f"  {'ok    ' if check.holds else 'FAILED'}  {check.sentence}")
        self._console.print(f"\n{self._ask('dead-letters', 'list', '--limit', _SHOWN_DEAD_LETTERS)}")
        return all(check.holds for check in checks)

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


def _document(written: str) -> Mapping[str, Any]:
    """Return the JSON document among the lines a command wrote."""
    found: Mapping[str, Any] = json.loads(next(line for line in written.splitlines() if line.startswith("{")))
    return found
