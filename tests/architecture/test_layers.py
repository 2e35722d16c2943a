"""The rules that keep the tree readable, held against the tree itself."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("reliability", "storage", "tasks", "worker")
MAX_LINES = 300
#: The only files that may read the wall clock or make chance and names; everything else is handed them.
IMPURE_FILES = {"reliability/clock.py", "worker/bootstrap.py"}
IMPURE_CALLS = {
    ("datetime", "now"),
    ("datetime", "utcnow"),
    ("time", "time"),
    ("time", "time_ns"),
    ("uuid", "uuid4"),
}
FORBIDDEN_NAMES = {"utils", "common", "helpers", "manager", "util", "misc"}


def sources() -> Iterator[Path]:
    """Yield every source file of the four packages."""
    for package in PACKAGES:
        yield from sorted((ROOT / package).rglob("*.py"))


def shown(path: Path) -> str:
    """Return the path as the project names it."""
    return path.relative_to(ROOT).as_posix()


def test_imports_point_one_way() -> None:
    """import-linter finds every contract of pyproject.toml kept."""
    linter = Path(sys.executable).with_name("lint-imports")

    kept = subprocess.run([linter], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)

    assert kept.returncode == 0, kept.stdout


def test_files_stay_readable_in_one_sitting() -> None:
    """No source file grows past 300 lines."""
    long = [shown(path) for path in sources() if len(path.read_text().splitlines()) > MAX_LINES]

    assert long == []


def test_module_docstrings_say_what_a_file_is_for() -> None:
    """Every module with code opens with a docstring."""
    silent = [
        shown(path)
        for path in sources()
        if path.read_text().strip() and ast.get_docstring(ast.parse(path.read_text())) is None
    ]

    assert silent == []


def test_no_drawer_for_everything() -> None:
    """No module is named after nothing in particular."""
    assert [shown(path) for path in sources() if path.stem in FORBIDDEN_NAMES] == []


def test_time_and_chance_come_in_as_arguments() -> None:
    """The wall clock, chance and fresh names are taken in two files only."""
    impure = [
        f"{shown(path)}:{line}" for path in sources() if shown(path) not in IMPURE_FILES for line in impure_lines(path)
    ]

    assert impure == []


def impure_lines(path: Path) -> Iterator[int]:
    """Yield the lines that call the wall clock or make a fresh id, or import `random`."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=name)) if (owner, name) in IMPURE_CALLS:
                yield node.lineno
            case ast.Import(names=names) if any(name.name == "random" for name in names):
                yield node.lineno
            case ast.ImportFrom(module="random"):
                yield node.lineno
            case _:
                pass


def test_exceptions_live_in_one_tree() -> None:
    """Every exception of this project's own tree is defined in reliability/errors.py."""
    tree = set(classes(ROOT / "reliability" / "errors.py"))

    elsewhere = [
        f"{shown(path)}: {name}"
        for path in sources()
        if shown(path) != "reliability/errors.py"
        for name, bases in classes(path).items()
        if bases & tree
    ]

    assert elsewhere == []


def classes(path: Path) -> dict[str, set[str]]:
    """Return the classes of a file with the last names of their bases."""
    found = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef))
    return {node.name: {ast.unparse(base).rpartition(".")[2] for base in node.bases} for node in found}


@pytest.mark.parametrize("package", PACKAGES)
def test_package_exists(package: str) -> None:
    """The four packages the layers name are there, so that the rules above hold for something."""
    assert any((ROOT / package).glob("*.py"))
