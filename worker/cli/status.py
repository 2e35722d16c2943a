"""`chio-worker status`: how many jobs there are of each kind, where they are, and whether the numbers add up."""

from typing import Annotated

import typer

from worker.cli import options, output


def status(
    *,
    as_json: options.AsJson = False,
    watch: Annotated[bool, typer.Option("--watch", help="Show it again and again until Ctrl-C.")] = False,
    interval_s: Annotated[float, typer.Option(min=0.1, max=3600, help="Seconds between two looks.")] = 1.0,
) -> None:
    """
    Count the jobs of each kind: admitted, ended, dead, in flight; and what waits beside them.

    Exit code 1 says that the numbers do not add up: settled + skipped + confirmed + cancelled + dead + in flight must
    be admitted.
    """
    from worker.cli import census, station, watching

    with station.opened() as here:

        def look() -> census.Census:
            return census.take(here.storage, here.spooled(), here.set_aside())

        if watch:
            watching.watch(look, interval_s, as_json=as_json)
            raise typer.Exit(options.EXIT_FINE)
        found = look()
    if as_json:
        output.document(found.to_json())
    else:
        output.show(found.to_tables())
    raise typer.Exit(options.EXIT_FINE if found.is_balanced else options.EXIT_REFUSED)
