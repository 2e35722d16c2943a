"""The installed `chio-worker` command as a process of its own, as a shell would start it."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path


def chio_worker(
    folder: Path, url: str, *arguments: str, stdin: bytes = b"", environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run the installed command on the server at the address; none of the caller's settings reach it."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("CHIO_")}
    return subprocess.run(
        [Path(sys.executable).with_name("chio-worker"), *arguments],
        cwd=folder,
        env={**inherited, "CHIO_REDIS_URL": url, **(environ or {})},
        input=stdin,
        capture_output=True,
        check=False,
        timeout=60,
    )
