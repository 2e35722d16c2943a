"""`chio-worker jobs`: one job of the ledger, looked at, held, released or cancelled."""

from typing import Annotated

import typer

from worker.cli import options, output

app = typer.Typer(no_args_is_help=True, help="Look at jobs in flight; hold, release or cancel one.")

JobId = Annotated[str, typer.Argument(help="A receipt id, or delivery:PARTNER:MESSAGE.")]


@app.command("list")
def list_jobs(
    state: Annotated[str, typer.Argument(help="outstanding, leased, parked, awaiting or held.")],
    *,
    limit: options.Limit = 100,
    as_json: options.AsJson = False,
) -> None:
    """List the jobs of one state, the soonest due or longest leased first."""
    from worker.cli import rows, station

    wanted = rows.job_state(state)
    with station.opened() as here:
        found = here.storage.jobs.rows(wanted, limit)
    if as_json:
        output.document([rows.job_to_json(row) for row in found])
    else:
        output.show(rows.job_table(f"Jobs that are {wanted.value}", found))


@app.command()
def show(job_id: JobId, *, as_json: options.AsJson = False) -> None:
    """Show where a job is; never its payload."""
    from worker.cli import rows, station

    with station.opened() as here:
        row = here.storage.jobs.get(job_id)
    if row is None:
        raise rows.nothing_there(f"no job {job_id!r} in flight", f"chio-worker dead-letters show {job_id}")
    if as_json:
        output.document(rows.job_to_json(row))
    else:
        output.show(rows.facts(f"Job {job_id}", rows.job_to_json(row)))


@app.command()
def hold(job_id: JobId, *, as_json: options.AsJson = False) -> None:
    """Stop a job at its next claim; an attempt that is running ends, and its retry is held."""
    from worker.cli import rows, station

    with station.opened() as here:
        done = here.storage.jobs.hold(job_id)
    if not done:
        raise rows.nothing_there(f"no job {job_id!r} in flight", "chio-worker status")
    rows.answer(f"{job_id} is held", {"job_id": job_id, "held": True}, as_json=as_json)


@app.command()
def release(job_id: JobId, *, as_json: options.AsJson = False) -> None:
    """Let a held job go on; it is due at once."""
    from worker.cli import rows, station

    with station.opened() as here:
        done = here.storage.jobs.release(job_id)
    if not done:
        raise rows.nothing_there(f"job {job_id!r} is not held", f"chio-worker jobs show {job_id}")
    rows.answer(f"{job_id} is released", {"job_id": job_id, "released": True}, as_json=as_json)


@app.command()
def cancel(job_id: JobId, *, yes: options.Yes = False, as_json: options.AsJson = False) -> None:
    """End a job for good; refused while an attempt of it runs."""
    from worker.cli import rows, station

    options.confirm(f"End job {job_id} for good?", yes=yes)
    with station.opened() as here:
        done = here.storage.jobs.cancel(job_id)
    if not done:
        raise rows.nothing_there(f"job {job_id!r} is gone or an attempt is running", f"chio-worker jobs show {job_id}")
    rows.answer(f"{job_id} is cancelled", {"job_id": job_id, "cancelled": True}, as_json=as_json)
