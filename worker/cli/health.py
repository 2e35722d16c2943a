"""`chio-worker health` and `chio-worker doctor`: whether workers live, and whether a deployment is sound."""

import typer

from worker.cli import options

app = typer.Typer(no_args_is_help=True, help="Ask this host's workers; for probes of a process manager.")


@app.command()
def live(*, as_json: options.AsJson = False) -> None:
    """Tell whether the workers of this data directory can be left alone; exit code 1 asks for a restart."""
    from worker.cli import probing

    raise typer.Exit(probing.probe("live", as_json=as_json))


@app.command()
def ready(*, as_json: options.AsJson = False) -> None:
    """Tell whether the workers of this data directory take jobs and can record them; exit code 1 says no."""
    from worker.cli import probing

    raise typer.Exit(probing.probe("ready", as_json=as_json))


def doctor(*, as_json: options.AsJson = False) -> None:
    """Check settings, servers, clocks and beats, and say what to change; exit code 1 says that something must be."""
    from worker.cli import probing

    raise typer.Exit(probing.examine(as_json=as_json))
