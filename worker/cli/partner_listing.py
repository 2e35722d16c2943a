"""The partners of a file, listed; and the one way in which durations are written for people."""

import os
from datetime import timedelta
from pathlib import Path

from rich.table import Table

from reliability.errors import ConfigurationError
from tasks.partners import PartnerDirectory
from worker import bootstrap
from worker.cli import output

_MILLISECOND = timedelta(milliseconds=1)
_SECOND_MS = 1_000
_MINUTE_MS = 60_000


def loaded(file: Path | None) -> PartnerDirectory:
    """
    Read the partner file, or the one the settings name, with this process' environment.

    Raises:
        ConfigurationError: No file is named, or with every problem in it.

    """
    # Secrets may stand in `.env`, from where a worker takes them too.
    path = file or bootstrap.load_settings().partners_file
    if path is None:
        raise ConfigurationError("no partner file is named; give it, or set CHIO_PARTNERS_FILE")
    return PartnerDirectory.load(path, os.environ)


def listed(directory: PartnerDirectory) -> dict[str, object]:
    """Return the document of `check --json`."""
    return {
        "partners": [
            {
                "partner_id": partner.partner_id,
                "url": partner.url,
                "secrets": [secret.reference for secret in partner.secrets],
                "max_retries": partner.retry.max_retries,
                "horizon_ms": partner.retry.horizon() // _MILLISECOND,
                "deadline_s": partner.deadline_s,
                "disabled": partner.disabled,
            }
            for partner in directory.partners.values()
        ]
    }


def table(directory: PartnerDirectory) -> Table:
    """Return what a person reads after `check`."""
    rows = [
        [
            partner.partner_id,
            partner.url,
            " ".join(secret.reference for secret in partner.secrets),
            partner.retry.max_retries,
            duration(partner.retry.horizon() // _MILLISECOND),
            "yes" if partner.disabled else "no",
        ]
        for partner in directory.partners.values()
    ]
    return output.table("Partners", ["partner", "url", "secrets", "retries", "waits in all", "disabled"], rows)


def duration(milliseconds: int) -> str:
    """Write a duration for people: `250 ms`, `2.5 s`, `1 day, 2:00:00`."""
    if milliseconds < _MINUTE_MS:
        return f"{milliseconds} ms" if milliseconds < _SECOND_MS else f"{milliseconds / _SECOND_MS:g} s"
    return str(timedelta(milliseconds=milliseconds))
