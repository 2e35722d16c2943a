"""The command tree of `chio-worker`: which groups and commands there are, and nothing of what they do."""

import typer

from worker.cli import (
    dead_letters,
    enqueue,
    health,
    jobs,
    partners,
    quarantine,
    reconciliation,
    simulate,
    status,
    version,
)

app = typer.Typer(
    name="chio-worker",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    help="Enqueue jobs, watch them, and look after what failed. Settings are variables named CHIO_*.",
    epilog="Exit codes: 0 fine; 1 the answer is no, or lines were refused; 2 usage, settings or an unreachable server.",
)
app.add_typer(enqueue.app, name="enqueue")
app.command("status")(status.status)
app.add_typer(jobs.app, name="jobs")
app.add_typer(dead_letters.app, name="dead-letters")
app.add_typer(reconciliation.app, name="reconciliation")
app.add_typer(partners.app, name="partners")
app.add_typer(quarantine.app, name="quarantine")
app.command("doctor")(health.doctor)
app.add_typer(health.app, name="health")
app.add_typer(simulate.app, name="simulate")
app.command("version")(version.version)
