"""`chio-worker simulate`: partners that misbehave on purpose, on a loopback port, for demos and tests."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Run a partner that misbehaves as scripted.")

Host = Annotated[str, typer.Option(help="Address to listen on.")]
Port = Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen on; 0 takes a free one.")]


@app.command()
def rail(
    host: Host = "127.0.0.1",
    port: Port = 0,
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


@app.command()
def partner(
    host: Host = "127.0.0.1",
    port: Port = 0,
    script: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="JSON or TOML file: which message meets what.")
    ] = None,
    log: Annotated[Path, typer.Option(dir_okay=False, help="File that gets one JSON line per request.")] = Path(
        ".chio/partner.jsonl"
    ),
) -> None:
    """
    Run a webhook partner that takes, refuses, stalls and hangs up as scripted, and logs every request.

    Without a script, the path of a delivery's URL says what happens to it, as in /p/acme/503/503/ok.
    """
    from worker.simulators import partner as simulator

    simulator.run_partner(host, port, script, log)
