"""
The demo from beginning to end: start, feed, watch, add up.

Called by `worker.demo.__main__`. Every number it compares was printed by a program of the stack.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console

from reliability.errors import ChioError
from worker.demo import stack
from worker.demo.accounts import Accounts
from worker.demo.faults import FaultPlan, Faults
from worker.demo.feeding import Feeding
from worker.demo.looks import Look, Looks
from worker.demo.partners import DOWN, Partners
from worker.demo.picture import Picture
from worker.demo.processes import Child, Processes
from worker.demo.told import Told

#: How long the whole file may take, recovery after a fault included, in seconds.
RUN_LIMIT_S: Final = 150.0
#: The partner that is down comes back once so many waits for its circuit were told.
_WAITS_BEFORE_RETURN: Final = 60
_POLL_S: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Say what is fed, how rail and partners behave, and what goes wrong."""

    observations: Path
    rail_script: Path
    deliveries: Path
    partners: Path
    partner_script: Path
    faults: FaultPlan


class Story:
    """Tell one demo on a console, with programs that somebody else ends."""

    def __init__(self, plan: Plan, processes: Processes, console: Console) -> None:
        self._plan = plan
        self._processes = processes
        self._console = console
        self._effects = processes.folder / "rail-effects.jsonl"
        self._partners = Partners(processes, plan.partners, plan.partner_script)
        self._told = Told(processes.folder)
        self._is_down = True

    def tell(self) -> bool:
        """
        Run it all and say whether every check holds.

        Raises:
            ChioError: A program ended by itself, or nothing happened for too long.

        """
        self._console.print("Starting the server, the rail, two of three partners, a worker, beat and Flower ...")
        worker, flower = self._start()
        self._console.print(f"Flower shows the tasks at {flower} while this runs.")
        looks = Looks(self._processes)
        feeding = Feeding(self._processes, self._plan.observations, self._plan.deliveries, self._partners)
        with Picture(self._console, f"chio-worker demo, Flower at {flower}") as picture:
            faults = Faults(self._plan.faults, self._processes, worker)
            last = self._watch(looks, feeding, picture, faults)
        accounts = Accounts(self._processes, self._partners, self._told, self._effects)
        return accounts.settle(self._console, last, feeding, (self._plan.observations, self._plan.deliveries))

    def _start(self) -> tuple[Child, str]:
        stack.start_server(self._processes)
        stack.start_rail(self._processes, self._plan.rail_script, self._effects)
        self._partners.start()
        worker = stack.start_worker(self._processes, "worker-1")
        stack.start_beat(self._processes)
        flower = stack.start_flower(self._processes)
        stack.wait_for_worker(self._processes, worker)
        return worker, flower

    def _watch(self, looks: Looks, feeding: Feeding, picture: Picture, faults: Faults) -> Look:
        """Show every look until all jobs of the files have ended."""
        deadline_s = time.monotonic() + RUN_LIMIT_S
        while time.monotonic() < deadline_s:
            look = looks.newest()
            picture.show(look)
            for happened in (*faults.strike(look), *self._told.follow()):
                picture.tell(happened)
            feeding.go_on(picture.tell)
            self._come_back(picture)
            if feeding.is_over(look):
                return look
            self._processes.check()
            time.sleep(_POLL_S)
        raise ChioError(
            f"not every job has ended after {RUN_LIMIT_S:g} s; look at the logs in {self._processes.folder}"
        )

    def _come_back(self, picture: Picture) -> None:
        """Let the partner that is down come back once everybody has seen what that means."""
        if self._is_down and self._told.waits.total() >= _WAITS_BEFORE_RETURN:
            self._is_down = False
            picture.tell(f"{DOWN} was down for {self._told.waits.total()} waits and comes back")
            self._partners.come_back()
