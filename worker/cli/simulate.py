"""`chio-worker simulate`: partners that misbehave on purpose, on a loopback port, for demos and tests."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Run a partner that misbehaves as scripted.")


@app.command()
def rail(
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen on; 0 takes a free one.")],
    script: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="JSON file: which receipt meets what.")],
    log: Annotated[Path, typer.Option(dir_okay=False, help="File that gets one JSON line per effect.")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
) -> None:
    """Run a settlement rail: it settles, fails, stalls and hangs up as its script says, and logs every effect."""
    from worker.simulators import rail as simulator

    simulator.run_rail(host, port, script, log)
