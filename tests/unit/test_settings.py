"""The settings class: where values come from, what is refused, and what a message tells."""

from pathlib import Path

import pytest

from reliability.errors import ConfigurationError
from reliability.retry import RetryPolicy
from worker.settings import Settings, env_name


@pytest.fixture(autouse=True)
def _no_settings_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    for field in Settings.model_fields:
        monkeypatch.delenv(env_name(field), raising=False)


def test_every_setting_has_a_default_and_a_sentence() -> None:
    """Settings load from an empty environment, and each one says in a sentence what it is."""
    settings = Settings.load()

    assert settings.lease_ms == 15_000
    assert all((field.description or "").endswith(".") for field in Settings.model_fields.values())


def test_values_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable with the prefix sets its field; an empty one counts as unset."""
    monkeypatch.setenv("CHIO_CONCURRENCY", "7")
    monkeypatch.setenv("CHIO_LEASE_MS", "")

    settings = Settings.load()

    assert (settings.concurrency, settings.lease_ms) == (7, 15_000)


def test_a_given_value_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a caller gives stands before the environment."""
    monkeypatch.setenv("CHIO_CONCURRENCY", "7")

    assert Settings.load(concurrency=3).concurrency == 3


def test_settings_are_frozen() -> None:
    """A setting cannot be changed in a running process."""
    settings = Settings.load()

    with pytest.raises(ValueError, match="frozen"):
        settings.lease_ms = 1  # type: ignore[misc]  # that it is refused is the test


def test_every_wrong_value_is_named_and_none_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """All values that do not hold are told at once, by the names of their settings, without what they were."""
    monkeypatch.setenv("CHIO_LEASE_MS", "secret-1")
    monkeypatch.setenv("CHIO_POOL", "secret-2")

    with pytest.raises(ConfigurationError) as caught:
        Settings.load()

    assert "CHIO_LEASE_MS: " in caught.value.problem
    assert "CHIO_POOL: " in caught.value.problem
    assert "secret" not in caught.value.problem


def test_a_secret_is_read_from_its_file(tmp_path: Path) -> None:
    """`<NAME>_FILE` puts the file's content, without its line end, in the secret's place."""
    mounted = tmp_path / "redis_url"
    mounted.write_text("redis://:pw@db:6379/0\n")

    settings = Settings.load(redis_url_file=mounted)

    assert settings.redis_url is not None
    assert settings.redis_url.get_secret_value() == "redis://:pw@db:6379/0"
    assert "pw" not in repr(settings)


def test_a_secret_given_twice_is_refused(tmp_path: Path) -> None:
    """A secret and its file together are refused: nobody could say which one counts."""
    mounted = tmp_path / "auth"
    mounted.write_text("a:b")

    with pytest.raises(ConfigurationError, match="CHIO_FLOWER_BASIC_AUTH or CHIO_FLOWER_BASIC_AUTH_FILE, not both"):
        Settings.load(flower_basic_auth="c:d", flower_basic_auth_file=mounted)


def test_a_missing_secret_file_is_named(tmp_path: Path) -> None:
    """A secret's file that cannot be read is told with its path."""
    with pytest.raises(ConfigurationError, match=r"CHIO_BROKER_URL_FILE: cannot read .*absent"):
        Settings.load(broker_url_file=tmp_path / "absent")


def test_the_policy_is_made_of_its_four_settings() -> None:
    """The settlement settings are the fields of the retry policy."""
    settings = Settings.load(
        settlement_max_retries=2,
        settlement_initial_backoff_ms=100,
        settlement_backoff_multiplier=3,
        settlement_backoff_cap_ms=500,
    )

    expected = RetryPolicy(max_retries=2, initial_backoff_ms=100, backoff_multiplier=3, backoff_cap_ms=500)
    assert settings.settlement_policy() == expected


@pytest.mark.parametrize("prefix", ["chio", "", "sp ace:", "new\nline:"])
def test_a_namespace_ends_with_a_colon(prefix: str) -> None:
    """A namespace that could run into a key's name, or break a line, is refused."""
    with pytest.raises(ConfigurationError, match="CHIO_NAMESPACE"):
        Settings.load(namespace=prefix)
