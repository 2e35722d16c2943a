"""
Writes `docs/configuration.md` and `.env.example` from the settings classes, so that neither can be wrong.

`python -m worker.settings_reference` writes both; a test compares them with the classes.
"""

import inspect
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

import pydantic
from pydantic.fields import FieldInfo

from tasks.hooks.rail_settings import PREFIX as RAIL_PREFIX
from tasks.hooks.rail_settings import RailSettings
from worker.settings import PREFIX, Settings

PAGE: Final = Path("docs/configuration.md")
EXAMPLE: Final = Path(".env.example")

_SECTION_MARK: Final = "# ---"
_PAGE_HEAD: Final = """\
# Configuration

Every setting is an environment variable; a file `.env` in the working directory is read too, and the environment wins.
Secrets may come from a file instead: `<NAME>_FILE`. Settings that cannot work together stop the start with a sentence
that says which and what to change. This page is written by `python -m worker.settings_reference`.
"""
_EXAMPLE_HEAD: Final = """\
# Every setting with its default; copy to `.env` and change what you need.
# The same as a table: docs/configuration.md. Written by `python -m worker.settings_reference`.
"""
_RAIL_TITLE: Final = "the HTTP rail (read by the settlement hook that ships with the project)"


def configuration_page() -> str:
    """Return the page with a table for each section."""
    tables = [_table(title, PREFIX, fields) for title, fields in sections().items()]
    return "\n".join([_PAGE_HEAD, *tables, _table(_RAIL_TITLE, RAIL_PREFIX, RailSettings.model_fields)])


def env_example() -> str:
    """Return the example file: every setting, commented out, with its default."""
    blocks = [_block(title, PREFIX, fields) for title, fields in sections().items()]
    return "\n".join([_EXAMPLE_HEAD, *blocks, _block(_RAIL_TITLE, RAIL_PREFIX, RailSettings.model_fields)])


def sections() -> dict[str, dict[str, FieldInfo]]:
    """Return the settings by the section comments between them in the class."""
    found: dict[str, dict[str, FieldInfo]] = {}
    for title, name in _titles_and_names():
        found.setdefault(title, {})[name] = Settings.model_fields[name]
    return found


def _titles_and_names() -> Iterator[tuple[str, str]]:
    title = ""
    for line in inspect.getsource(Settings).splitlines():
        text = line.strip()
        if text.startswith(_SECTION_MARK):
            title = text.strip("# -")
        name = text.partition(":")[0]
        if name in Settings.model_fields and line.startswith(f"    {name}:"):
            yield title, name


def _table(title: str, prefix: str, fields: Mapping[str, FieldInfo]) -> str:
    rows = [
        f"| `{prefix}{name.upper()}` | {_shown_default(field)} | {field.description} |\n"
        for name, field in fields.items()
    ]
    return f"## {title[:1].upper()}{title[1:]}\n\n| setting | default | meaning |\n|---|---|---|\n{''.join(rows)}"


def _shown_default(field: FieldInfo) -> str:
    default = _default(field)
    choices = f" (or {', '.join(_others(field, default))})" if _others(field, default) else ""
    return f"`{default}`{choices}" if default else "unset"


def _block(title: str, prefix: str, fields: Mapping[str, FieldInfo]) -> str:
    lines = [f"# {field.description}\n# {prefix}{name.upper()}={_default(field)}\n" for name, field in fields.items()]
    return f"# --- {title}\n\n" + "\n".join(lines)


def _default(field: FieldInfo) -> str:
    default: Any = field.default
    if default is None or field.is_required():
        return ""
    if isinstance(default, bool):
        return str(default).lower()
    return str(default.get_secret_value() if isinstance(default, pydantic.SecretStr) else default)


def _others(field: FieldInfo, default: str) -> list[str]:
    if get_origin(field.annotation) is not Literal:
        return []
    return [f"`{choice}`" for choice in get_args(field.annotation) if choice != default]


def main() -> int:
    """Write both files below the working directory."""
    PAGE.write_text(configuration_page(), encoding="utf-8")
    EXAMPLE.write_text(env_example(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
