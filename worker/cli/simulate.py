"""`chio-worker simulate`: partners that misbehave on purpose, on a loopback port, for demos and tests."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Run a partner that misbehaves as scripted.")


@app.command()
def rail(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen on; 0 takes a free one.")] = 0,
    script: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="JSON or TOML file: which receipt meets what.")
    ] = None,
    log: Annotated[Path, typer.Option(dir_okay=False, help="File that gets one JSON line per request.")] = Path(
        ".chio/rail.jsonl"
    ),
) -> None:
    """
    Run a settlement rail that settles, fails, stalls and hangs up as scripted, and logs every effect.

    Without a script, the tool name of a receipt may say what happens to it, as in `rail.fail-twice`.
    """
    from worker.simulators import rail as simulator

    simulator.run_rail(host, port, script, log)
