"""The README, held to its word: its commands exist, its code runs, its links and defaults are right."""

import base64
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from reliability.errors import HookError
from reliability.outcomes import Accepted, Permanent, Retryable, classify_exception
from reliability.settlement import SettlementObservation
from storage.jobs import JobKind
from tasks import messages
from tasks.hooks import loading
from tests.support.observations import observation
from worker.settings import Settings

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
#: What the README's hook calls.
BANK = """
def transfer(receipt_id, units):
    if receipt_id == "slow":
        raise TimeoutError
    return f"transfer-of-{receipt_id}"
"""
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(language: str) -> list[str]:
    """Return the README's code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


def commands(first_word: str) -> list[list[str]]:
    """Return the README's console commands that begin with the word."""
    lines = [line for block in blocks("console") for line in block.splitlines()]
    split = [shlex.split(line.removeprefix("$ ")) for line in lines if line.startswith("$ ")]
    return [words for words in split if words[0] == first_word]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link of every page leads to a file of the project."""
    links = re.findall(r"\]\(([^)#]+)", page.read_text())
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]

    assert missing == []


def test_make_commands_exist() -> None:
    """Every `make` command the README names is a target of the Makefile."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = {words[1] for words in commands("make")} | set(re.findall(r"`make ([a-z]+)`", README))

    assert {"demo", "test"} <= named <= targets


@pytest.mark.parametrize("words", commands("chio-worker"), ids=" ".join)
def test_command_line_examples_exist(words: list[str]) -> None:
    """Every `chio-worker` command the README shows is one, and the files it names are there."""
    verbs = [word for word in words[1:] if re.fullmatch(r"[a-z-]+", word)]
    files = [word for word in words[1:] if "/" in word]

    helped = subprocess.run(
        [Path(sys.executable).with_name("chio-worker"), *verbs, "--help"], capture_output=True, check=False, timeout=60
    )

    assert helped.returncode == 0, helped.stderr
    assert all((ROOT / file).exists() for file in files)


@pytest.mark.server
def test_foreign_producer_example_is_admissible(redis_url: str) -> None:
    """The producer's code runs as it stands, and what it sends is an observation a worker admits."""
    (code,) = (block for block in blocks("python") if "send_task" in block)
    assert "redis://localhost:6379/0" in code

    program = compile(code.replace("redis://localhost:6379/0", redis_url), "README.md", "exec")
    exec(program, {})  # noqa: S102  # our own page, and what it shows has to run as it stands

    with redis.Redis.from_url(redis_url) as client:
        raw = client.rpop(f"{Settings.model_fields['broker_key_prefix'].default}settlement")
    assert isinstance(raw, bytes)
    message = json.loads(raw)
    kwargs = json.loads(base64.b64decode(message["body"]))[1]
    job = messages.admissible_settlement(SettlementObservation.from_wire(kwargs["observation"]), 65_536)
    assert (message["headers"]["task"], job.kind) == ("chio.settle.observe", JobKind.SETTLEMENT)


def test_hook_example_is_a_hook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hook's code loads by its path, settles, and its failures are classified as the README says."""
    (code,) = (block for block in blocks("python") if "def observe" in block)
    (tmp_path / "readme_hook.py").write_text(f"{code}\n\n{BANK}")
    monkeypatch.syspath_prepend(tmp_path)
    hook = loading.load_settlement_hook("readme_hook:BankHook")

    settled = hook.observe(observation(receipt_id="fine"))
    with pytest.raises(HookError) as transient:
        hook.observe(observation(receipt_id="slow"))
    with pytest.raises(HookError) as permanent:
        hook.observe(observation(amount={"units": 1, "currency": "USD"}))

    assert settled == Accepted("transfer-of-fine")
    assert isinstance(classify_exception(transient.value), Retryable)
    assert isinstance(classify_exception(permanent.value), Permanent)


def test_settings_table_tells_the_defaults() -> None:
    """Each setting in the README's table exists and has the default the table shows."""
    rows = re.findall(r"^\| `CHIO_(\w+)` \| `?([^|`]+?)`? \|", README, flags=re.MULTILINE)
    shown = {name.lower(): default for name, default in rows}
    defaults = {name: Settings.model_fields[name].default for name in shown}

    assert shown == {
        name: {"redis_url": "embedded server", "broker_url": "CHIO_REDIS_URL"}.get(name, str(default))
        for name, default in defaults.items()
    }


def test_decision_and_doing_stand_where_the_readme_says() -> None:
    """The README names where a retry is decided and where it is carried out, and both names are there."""
    assert "[`reliability/retry.py`](reliability/retry.py): `classify_attempt" in README
    assert "def classify_attempt(" in (ROOT / "reliability" / "retry.py").read_text()
    assert "[`tasks/attempt_task.py`](tasks/attempt_task.py): `AttemptTask`" in README
    doing = (ROOT / "tasks" / "attempt_task.py").read_text()
    assert "class AttemptTask(" in doing
    assert "steps.RetryAfter(" in doing
