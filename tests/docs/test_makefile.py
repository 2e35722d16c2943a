"""The Makefile as a newcomer meets it: it lists itself, installs once, and says what a machine lacks."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = {"setup", "demo", "run", "test", "check", "bench", "chaos", "fmt", "lint", "types", "arch", "docs", "lock"}

#: Stands for an interpreter: makes a virtual environment whose `python` notes each call in `calls`.
FAKE_PYTHON = """#!/bin/sh
echo "$@" >> {calls}
case "$*" in
    *"-m venv"*) mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
esac
{verdict}
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Lay out what the install step reads."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "dev.txt").touch()
    (tmp_path / "pyproject.toml").touch()
    return tmp_path


def make(folder: Path, *arguments: str, extra: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run make in the folder without what an outer make may have left in the environment."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", *arguments],
        cwd=folder,
        env={**environment, **(extra or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def fake_python(folder: Path, verdict: str = "exit 0") -> Path:
    """Write an interpreter that notes its calls and ends with the verdict."""
    script = folder / "fake-python"
    script.write_text(FAKE_PYTHON.format(calls=folder / "calls", verdict=verdict))
    script.chmod(0o755)
    return script


def calls(folder: Path) -> list[str]:
    """Return the noted calls."""
    return (folder / "calls").read_text().splitlines()


def test_make_alone_lists_every_target() -> None:
    """`make` prints each target with a sentence, and every needed target is there."""
    listed = dict(re.findall(r"^  make ([a-z]+)\s+(\S.*)$", make(ROOT).stdout, flags=re.MULTILINE))

    assert set(listed) >= NEEDED


def test_every_phony_target_is_documented() -> None:
    """A target that a person may call has its sentence beside it."""
    text = (ROOT / "Makefile").read_text()
    phony = set(re.findall(r"^\.PHONY: (.*)$", text, flags=re.MULTILINE)[0].split())

    documented = set(re.findall(r"^([a-z]+):.*## ", text, flags=re.MULTILINE))

    assert phony == documented


def test_first_call_installs_and_second_does_not(checkout: Path) -> None:
    """The first call of a target installs the pinned requirements with hashes; the second installs nothing."""
    python = fake_python(checkout)

    first = make(checkout, "setup", f"PYTHON={python}")
    after_first = calls(checkout)
    second = make(checkout, "setup", f"PYTHON={python}")

    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert any("--require-hashes -r requirements/dev.txt" in call for call in after_first)
    assert calls(checkout) == after_first


@pytest.mark.parametrize("target", sorted(NEEDED))
def test_any_first_target_installs(checkout: Path, target: str) -> None:
    """Whatever target a newcomer calls first, the install comes before it."""
    planned = make(checkout, "--dry-run", target).stdout

    assert "--require-hashes" in planned


@pytest.mark.parametrize("changed", ["requirements/dev.txt", "pyproject.toml"])
def test_changed_pins_install_again(checkout: Path, changed: str) -> None:
    """A change of what is pinned or declared makes the next call install again."""
    python = fake_python(checkout)
    make(checkout, "setup", f"PYTHON={python}")
    newer = (checkout / ".venv" / ".installed").stat().st_mtime + 10
    os.utime(checkout / changed, (newer, newer))

    planned = make(checkout, "--dry-run", "setup").stdout

    assert "--require-hashes" in planned


def test_old_python_is_refused_with_what_to_do(checkout: Path) -> None:
    """An interpreter older than 3.11 ends in a sentence that names it and the variable that picks another."""
    python = fake_python(checkout, verdict="exit 1")

    refused = make(checkout, "setup", f"PYTHON={python}")

    assert refused.returncode != 0
    assert f"{python} is missing or older than Python 3.11" in refused.stderr
    assert "make PYTHON=" in refused.stderr


def test_missing_venv_module_names_the_package(checkout: Path) -> None:
    """On a Debian without python3-venv the sentence names the package, and no half-made environment stays."""
    python = fake_python(checkout, verdict='case "$*" in *ensurepip*) exit 1 ;; esac')

    refused = make(checkout, "setup", f"PYTHON={python}")

    assert refused.returncode != 0
    assert "apt-get install python3-venv" in refused.stderr
    assert not (checkout / ".venv").exists()


def test_failed_install_is_not_taken_for_done(checkout: Path) -> None:
    """When the installer fails, the target fails too and the next call installs again."""
    python = fake_python(checkout, verdict='case "$*" in *"-m pip"*) exit 1 ;; esac')

    failed = make(checkout, "setup", f"PYTHON={python}")

    assert failed.returncode != 0
    assert not (checkout / ".venv" / ".installed").exists()


def test_requirements_name_no_index() -> None:
    """The pinned requirements carry hashes and no address of a package index."""
    for name in ("dev.txt", "runtime.txt"):
        text = (ROOT / "requirements" / name).read_text()

        assert "--hash=sha256:" in text
        assert "://" not in text


def test_ci_calls_the_readme_commands() -> None:
    """CI runs all of `make test` last, container tests too, so that its closing lines are those of the tests."""
    lines = (ROOT / ".ci" / "run").read_text().strip().splitlines()

    assert lines[-1] == "tests/containers/with_engine.sh make test"
    assert "set -euo pipefail" in lines
