"""
The producers that `docs/wire-contract.md` shows, run as they stand on the page: other code bases, one in no Python.

Each gets the broker's address in its environment and observations on standard input, and imports nothing of this
project. Node.js' packages are installed by the lock file beside the example, once for a test process.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest

from tests.support.worker_process import ROOT

NAMES: Final = ("celery", "kombu", "node")
_PAGE: Final = ROOT / "docs/wire-contract.md"
_PACKAGE: Final = ROOT / "examples/producers"
_INSTALL_LIMIT_S: Final = 150
_RUN_LIMIT_S: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Producers:
    """Hold the programs by name and the folder they run in."""

    directory: Path
    programs: dict[str, Sequence[str]]

    def send(
        self, name: str, broker_url: str, observations: Sequence[bytes], **environ: str
    ) -> subprocess.CompletedProcess[bytes]:
        """Run one producer on these observations."""
        inherited = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")}
        return subprocess.run(
            self.programs[name],
            cwd=self.directory,
            env={**inherited, "BROKER_URL": broker_url, **environ},
            input=b"".join(line + b"\n" for line in observations),
            capture_output=True,
            check=False,
            timeout=_RUN_LIMIT_S,
        )

    def sending_to(self, queue: str) -> "Producers":
        """Return the same programs with another queue's name in them."""
        changed: dict[str, Sequence[str]] = {}
        for name, (*interpreter, file) in self.programs.items():
            code = (self.directory / file).read_text(encoding="utf-8")
            (self.directory / f"{queue}_{file}").write_text(code.replace("settlement", queue), encoding="utf-8")
            changed[name] = (*interpreter, f"{queue}_{file}")
        return replace(self, programs=changed)


def from_the_page(directory: Path) -> Producers:
    """Write the programs of the page into a folder and install what the one in JavaScript imports."""
    _require_node()
    for name in ("package.json", "package-lock.json"):
        shutil.copy(_PACKAGE / name, directory)
    install = ("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
    subprocess.run(install, cwd=directory, check=True, capture_output=True, timeout=_INSTALL_LIMIT_S)
    with_celery, with_kombu = _blocks("python")
    (with_node,) = _blocks("js")
    for name, code in {"celery.py": with_celery, "kombu.py": with_kombu, "node.mjs": with_node}.items():
        (directory / f"with_{name}").write_text(code, encoding="utf-8")
    return Producers(
        directory=directory,
        programs={
            "celery": (sys.executable, "with_celery.py"),
            "kombu": (sys.executable, "with_kombu.py"),
            "node": ("node", "with_node.mjs"),
        },
    )


def _blocks(language: str) -> list[str]:
    """Return the page's programs in a language."""
    page = _PAGE.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)


def _require_node() -> None:
    """Skip the calling test where Node.js is not installed; on CI it has to be."""
    if shutil.which("node") and shutil.which("npm"):
        return
    reason = "Node.js is not installed; on Debian: apt-get install nodejs npm"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
