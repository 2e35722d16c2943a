"""The pages written from the settings classes are as the classes say."""

import re
from pathlib import Path

from tasks.hooks.rail_settings import RailSettings
from worker import settings_reference
from worker.settings import Settings, env_name

ROOT = Path(__file__).parents[2]
AGAIN = "run `python -m worker.settings_reference`"


def test_the_configuration_page_is_up_to_date() -> None:
    """`docs/configuration.md` is what the settings classes say."""
    written = (ROOT / settings_reference.PAGE).read_text(encoding="utf-8")

    assert written == settings_reference.configuration_page(), AGAIN


def test_the_example_is_up_to_date() -> None:
    """`.env.example` is what the settings classes say."""
    written = (ROOT / settings_reference.EXAMPLE).read_text(encoding="utf-8")

    assert written == settings_reference.env_example(), AGAIN


def test_the_example_names_every_setting_once() -> None:
    """No setting is missing from the example, and none stands in it twice."""
    named = re.findall(r"^# (CHIO_\w+)=", settings_reference.env_example(), flags=re.MULTILINE)

    expected = [env_name(field) for field in Settings.model_fields]
    expected += [f"CHIO_RAIL_{field.upper()}" for field in RailSettings.model_fields]
    assert sorted(named) == sorted(expected)


def test_the_example_changes_nothing() -> None:
    """Copied as it is, the example leaves every default in force."""
    assert all(not line or line.startswith("#") for line in settings_reference.env_example().splitlines())
