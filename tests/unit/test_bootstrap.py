"""How the parts are put together: once per process, from the settings, without connecting."""

import os
from pathlib import Path
from typing import Any

import pytest

from reliability.errors import ConfigurationError
from worker import bootstrap
from worker.app import TASKS, create_app
from worker.settings import Settings

CLOSED_URL = "redis://127.0.0.1:1/0"


def test_a_part_is_made_once() -> None:
    """All users of a part in one process share it."""
    made = bootstrap.PerProcess(list[int])

    assert made() is made()


def test_a_forked_process_makes_its_own() -> None:
    """A pool process never uses what its parent made: two processes must not share a socket."""
    made = bootstrap.PerProcess(os.getpid)
    parent = made()
    reading, writing = os.pipe()

    child = os.fork()
    if child == 0:
        os.write(writing, str(made()).encode())
        os._exit(0)
    os.waitpid(child, 0)

    assert parent == os.getpid()
    assert int(os.read(reading, 32)) == child
    os.close(reading)
    os.close(writing)


def test_the_app_connects_to_nothing() -> None:
    """Making the app and its stores reaches for no server, so it works while none is up."""
    app = create_app(Settings.load(redis_url=CLOSED_URL))

    app.composition.storage()

    assert set(app.tasks) >= {task.name for task in TASKS}
    app.close()


def test_settings_that_cannot_work_make_no_app() -> None:
    """The app is not made of settings that cannot work together."""
    with pytest.raises(ConfigurationError, match="CHIO_VISIBILITY_TIMEOUT_S"):
        create_app(Settings.load(redis_url=CLOSED_URL, visibility_timeout_s=1))


def test_no_partners_means_no_deliveries() -> None:
    """Without a partner file the runtime has no delivery part, and settlements work."""
    app = create_app(Settings.load(redis_url=CLOSED_URL, settlement_hook="tasks.hooks.noop:NoopSettlementHook"))

    runtime = app.composition.runtime()

    assert runtime.delivery is None
    assert runtime.max_hop_ms == 60_000
    app.close()


def test_each_lease_has_a_token_of_its_own() -> None:
    """Leases name their process and carry a token nobody can guess."""
    app = create_app(Settings.load(redis_url=CLOSED_URL, settlement_hook="tasks.hooks.noop:NoopSettlementHook"))
    new_lease = app.composition.runtime().new_lease

    first, second = new_lease(), new_lease()

    assert first.token != second.token
    assert first.owner.endswith(f":{os.getpid()}")
    assert first.lease_ms == 15_000
    app.close()


def test_the_file_env_is_read_and_the_environment_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`.env` in the working directory sets what the environment leaves open."""
    (tmp_path / ".env").write_text("CHIO_CONCURRENCY=9\nCHIO_FLOWER_PORT=1234\n")
    monkeypatch.chdir(tmp_path)
    # Set and removed again by the fixture, whatever load_dotenv puts there.
    monkeypatch.setenv("CHIO_CONCURRENCY", "4")
    monkeypatch.setenv("CHIO_FLOWER_PORT", "x")
    monkeypatch.delenv("CHIO_FLOWER_PORT")

    settings = bootstrap.load_settings()

    assert (settings.concurrency, settings.flower_port) == (4, 1234)


@pytest.mark.parametrize("most", [0, 1, 500])
def test_jitter_stays_in_its_range(most: int) -> None:
    """Jitter is between nothing and its maximum."""
    assert all(0 <= bootstrap.jitter_ms(most) <= most for _ in range(50))


def test_the_embedded_server_is_found_without_running(tmp_path: Path) -> None:
    """Every process gets the same address, password included, whether the server is up or not."""
    settings: Any = Settings.load(data_dir=tmp_path / "data")

    first, second = bootstrap.redis_url(settings), bootstrap.redis_url(settings)

    address = tmp_path / "data" / "redis.url"
    assert first == second == address.read_text().strip()
    assert first.startswith("redis://:")
    assert address.stat().st_mode & 0o077 == 0


def test_a_chosen_port_is_kept(tmp_path: Path) -> None:
    """CHIO_EMBEDDED_PORT decides the port, also when another one was picked before."""
    bootstrap.redis_url(Settings.load(data_dir=tmp_path))

    assert ":6399/" in bootstrap.redis_url(Settings.load(data_dir=tmp_path, embedded_port=6399))
