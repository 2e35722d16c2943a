"""The rail's settings: read from the environment, refused with the variable's name, secrets never shown."""

from pathlib import Path

import pytest

from reliability.errors import ConfigurationError
from tasks.hooks import http_settlement, http_url, loading
from tasks.hooks.rail_settings import PREFIX, RailSettings

URL = "https://rail.test/settlements"
TOKEN = "hunter2-token"


@pytest.fixture(autouse=True)
def _no_dotenv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run where no `.env` lies about and no variable of the rail is set."""
    monkeypatch.chdir(tmp_path)
    for name in RailSettings.model_fields:
        monkeypatch.delenv(f"{PREFIX}{name.upper()}", raising=False)


def set_variables(monkeypatch: pytest.MonkeyPatch, **values: object) -> None:
    """Set variables of the rail by field name, with a usable URL unless another is given."""
    for name, value in {"url": URL, **values}.items():
        monkeypatch.setenv(f"{PREFIX}{name.upper()}", str(value))


def test_a_url_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the URL alone every other setting has its default."""
    set_variables(monkeypatch)

    settings = RailSettings.from_environment()

    assert settings.url == URL
    assert (settings.deadline_s, settings.max_response_bytes, settings.block_private_addresses) == (10.0, 65_536, False)
    assert settings.bearer_token() is None


def test_a_missing_url_says_what_to_set() -> None:
    """Without a URL the error names the variable and gives an example."""
    with pytest.raises(ConfigurationError, match=r"CHIO_RAIL_URL is not set: set it to the URL of the rail"):
        RailSettings.from_environment()


def test_every_setting_is_described() -> None:
    """Each setting has a sentence that says what it is."""
    assert all((field.description or "").endswith(".") for field in RailSettings.model_fields.values())


@pytest.mark.parametrize(
    "name, value",
    [
        ("deadline_s", "0"),
        ("deadline_s", "301"),
        ("deadline_s", "soon"),
        ("max_response_bytes", "1"),
        ("max_response_bytes", "2000000"),
        ("keepalive_s", "-1"),
        ("block_private_addresses", "perhaps"),
    ],
)
def test_a_value_out_of_range_names_its_variable(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    """A value that cannot be used stops the start with the variable's name."""
    set_variables(monkeypatch, **{name: value})

    with pytest.raises(ConfigurationError, match=f"{PREFIX}{name.upper()}: .* unset it for the default"):
        RailSettings.from_environment()


@pytest.mark.parametrize(
    "url, sentence",
    [
        ("rail.test/settlements", "begins with https:// or http://"),
        ("ftp://rail.test/", "begins with https:// or http://"),
        ("https://", "names a host"),
        ("https:///path", "names a host"),
        ("https://user:hunter2@rail.test/", "without user and password"),
        ("https://user@rail.test/", "without user and password"),
        ("https://rail.test/#part", "without #fragment"),
        ("https://rail.test:99999/", "such as https://host:port/path"),
        ("https://rail.test:port/", "such as https://host:port/path"),
        ("https://[::1/", "such as https://host:port/path"),
        ("https://rail.test/a b", "visible ASCII"),
        ("https://räil.test/", "visible ASCII"),
        ("https://rail.test/" + "x" * 2048, "at most 2048"),
        ("https://rail.test/\nHost: other", "visible ASCII"),
    ],
)
def test_a_url_that_cannot_be_used_says_why(url: str, sentence: str) -> None:
    """A wrong URL is refused with the setting's name, and a secret in it is not shown."""
    with pytest.raises(ConfigurationError) as refused:
        http_url.checked_url("CHIO_RAIL_URL", url)

    assert str(refused.value).startswith("CHIO_RAIL_URL: expected")
    assert sentence in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_a_wrong_url_in_the_environment_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The URL of the environment is checked when the settings are read."""
    set_variables(monkeypatch, url="rail.test")

    with pytest.raises(ConfigurationError, match="CHIO_RAIL_URL: expected a URL"):
        RailSettings.from_environment()


def test_a_token_comes_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file's content without the line's end is the token, and no repr shows it."""
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    set_variables(monkeypatch, token_file=tmp_path / "token")

    settings = RailSettings.from_environment()

    assert settings.bearer_token() == TOKEN
    assert TOKEN not in repr(settings)


def test_a_token_in_the_environment_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token from the environment is used, and neither settings nor hook show it."""
    set_variables(monkeypatch, token=TOKEN)

    settings = RailSettings.from_environment()
    hook = http_settlement.from_environment()

    assert settings.bearer_token() == TOKEN
    assert hook.token == TOKEN
    assert TOKEN not in repr(settings) + repr(hook)


@pytest.mark.parametrize("content", [b"", b"two words", b"two\nlines", b"\xff", b"x" * 9_000])
def test_a_token_file_that_holds_no_token_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    """A file that is empty, too long or more than one word is named, not shown."""
    (tmp_path / "token").write_bytes(content)
    set_variables(monkeypatch, token_file=tmp_path / "token")

    with pytest.raises(ConfigurationError, match=r"CHIO_RAIL_TOKEN"):
        RailSettings.from_environment()


def test_a_missing_token_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token file that is not there stops the start."""
    set_variables(monkeypatch, token_file=tmp_path / "nowhere")

    with pytest.raises(ConfigurationError, match=r"CHIO_RAIL_TOKEN_FILE: expected a readable ASCII file at .*nowhere"):
        RailSettings.from_environment()


def test_two_tokens_are_one_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token given twice is refused, since nobody can say which counts."""
    (tmp_path / "token").write_text(TOKEN)
    set_variables(monkeypatch, token=TOKEN, token_file=tmp_path / "token")

    with pytest.raises(ConfigurationError, match="both set: keep one"):
        RailSettings.from_environment()


def test_a_token_does_not_travel_in_the_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token for a rail without TLS is refused unless it is allowed or the rail is this host."""
    set_variables(monkeypatch, url="http://rail.test/", token=TOKEN)
    with pytest.raises(ConfigurationError, match="use https, or set CHIO_RAIL_ALLOW_UNENCRYPTED_TOKEN=true"):
        RailSettings.from_environment()

    set_variables(monkeypatch, url="http://rail.test/", allow_unencrypted_token="true")
    assert RailSettings.from_environment().bearer_token() == TOKEN


@pytest.mark.parametrize(
    "url, in_the_clear",
    [
        ("https://rail.test/", False),
        ("http://rail.test/", True),
        ("http://127.0.0.1:8080/", False),
        ("http://[::1]/", False),
        ("http://localhost/", False),
        ("http://localhost.rail.test/", True),
        ("http://10.0.0.1/", True),
    ],
)
def test_what_travels_in_the_clear(url: str, *, in_the_clear: bool) -> None:
    """Only a URL without TLS to another host sends readable bytes over a network."""
    assert http_url.travels_in_the_clear(url) is in_the_clear


def test_the_hook_is_loaded_by_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker's default path gives the hook that the environment describes."""
    set_variables(monkeypatch, deadline_s="2.5", conflict_is_finished="true", block_private_addresses="true")

    hook = loading.load_settlement_hook("tasks.hooks.http_settlement:from_environment")

    assert isinstance(hook, http_settlement.HttpSettlementHook)
    assert (hook.url, hook.total_deadline_s, hook.conflict_is_finished) == (URL, 2.5, True)


def test_a_dotenv_file_is_read_too(tmp_path: Path) -> None:
    """The rail's settings may stand in `.env` beside the worker's own."""
    (tmp_path / ".env").write_text(f"CHIO_RAIL_URL={URL}\nCHIO_NAMESPACE=chio:\n")

    assert RailSettings.from_environment().url == URL
