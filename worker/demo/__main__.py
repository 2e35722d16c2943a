"""`python -m worker.demo`: run the demo in a private folder that is removed when all went well."""

import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from reliability.errors import ChioError
from worker.demo import stack
from worker.demo.faults import FaultPlan
from worker.demo.processes import Processes
from worker.demo.story import Plan, Story

_HOME = Path(".chio/demo")
_FAILED = 1

Count = Annotated[int | None, typer.Option(min=0, metavar="JOBS", help="After so many jobs have ended.")]


def demo(  # noqa: PLR0913  # one parameter per option
    observations: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="One observation a line.")] = Path(
        "examples/observations.jsonl"
    ),
    rail_script: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="What the rail does.")] = Path(
        "examples/rail_script.json"
    ),
    deliveries: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="One delivery a line.")] = Path(
        "examples/deliveries.jsonl"
    ),
    partners: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="The partner file.")] = Path(
        "examples/demo_partners.toml"
    ),
    partner_script: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="What the partners do.")] = Path(
        "examples/partner_script.json"
    ),
    *,
    kill_worker_after: Count = None,
    delete_broker_keys_after: Count = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the stack running at the end, until Ctrl-C.")] = False,
) -> None:
    """Settle and deliver two files on a stack of its own, and check that every line is accounted for."""
    signal.signal(signal.SIGTERM, _end)
    # A shell that starts a program in the background makes it ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    faults = FaultPlan(kill_worker_after=kill_worker_after, delete_broker_keys_after=delete_broker_keys_after)
    plan = Plan(
        observations=observations.resolve(),
        rail_script=rail_script.resolve(),
        deliveries=deliveries.resolve(),
        partners=partners.resolve(),
        partner_script=partner_script.resolve(),
        faults=faults,
    )
    _HOME.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=_HOME)).resolve()
    try:
        holds = _told(plan, folder, keep=keep)
    except (KeyboardInterrupt, SystemExit):
        shutil.rmtree(folder)
        raise
    if not holds:
        sys.stderr.write(f"The demo failed; what every program wrote is in {folder}\n")
        raise typer.Exit(_FAILED)
    shutil.rmtree(folder)


def _told(plan: Plan, folder: Path, *, keep: bool) -> bool:
    console = Console(markup=False, emoji=False, highlight=False, width=None if sys.stdout.isatty() else 200)
    with Processes(folder, stack.environment_in(folder)) as processes:
        try:
            holds = Story(plan, processes, console).tell()
        except ChioError as error:
            sys.stderr.write(f"{error}\n")
            return False
        if keep:
            _keep_running(processes, console)
        return holds


def _keep_running(processes: Processes, console: Console) -> None:
    console.print("The stack keeps running; Ctrl-C ends it.")
    try:
        while True:
            processes.check()
            time.sleep(1)
    except (KeyboardInterrupt, SystemExit):
        console.print("Ending ...")


def _end(number: int, _frame: object) -> NoReturn:
    """Turn SIGTERM into an exit that runs every `with` block on its way."""
    sys.exit(128 + number)


if __name__ == "__main__":
    typer.run(demo)
