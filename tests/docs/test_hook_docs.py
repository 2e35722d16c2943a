"""docs/hooks.md is compared with the code: its example runs, its tables say what the code does."""

import hashlib
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from reliability.delivery import FailureConfirmed, SuccessConfirmed
from reliability.outcomes import Accepted, Permanent, Retryable
from tasks.hooks import DeliveryHook, rail_answer
from tasks.hooks.http_exchange import HttpExchange, Phase
from tasks.hooks.rail_settings import PREFIX, RailSettings
from tests.support.observations import observation
from tests.support.partner import request
from worker.simulators.rail_script import Kind, steps_of

PAGE = (Path(__file__).parents[2] / "docs" / "hooks.md").read_text(encoding="utf-8")


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the first table under a heading, without its header."""
    section = PAGE.partition(f"# {heading}\n")[2].split("\n#", 1)[0]
    table = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]


def test_the_example_runs() -> None:
    """The hook on the page is a hook: it settles euros once and refuses another currency."""
    code = PAGE.partition("```python\n")[2].partition("```")[0]
    namespace: dict[str, Any] = {}
    exec(compile(code, "docs/hooks.md", "exec"), namespace)  # noqa: S102  # our own page
    hook = namespace["BookkeepingHook"]()

    assert hook.observe(observation()) == Accepted("rcpt-1")
    assert hook.observe(observation()) == Accepted("rcpt-1")
    assert hook.book == {"rcpt-1": 125}
    assert isinstance(hook.observe(observation(amount={"units": 1, "currency": "USD"})), Permanent)


def test_the_delivery_example_runs() -> None:
    """The delivery hook on the page is one: it takes a message once and refuses another body under the same id."""
    code = PAGE.partition("## A delivery hook")[2].partition("```python\n")[2].partition("```")[0]
    namespace: dict[str, Any] = {}
    exec(compile(code, "docs/hooks.md", "exec"), namespace)  # noqa: S102  # our own page
    hook = namespace["PostboxHook"]()

    assert isinstance(namespace["PostboxHook"](), DeliveryHook)
    assert hook.send(request()) == hook.send(request()) == SuccessConfirmed()
    assert hook.slots == {"acme": {"msg_1": b'{"n":1}'}}
    assert isinstance(hook.send(request(body=b"other")), FailureConfirmed)


@pytest.mark.parametrize("row", [row for row in rows("What an answer means") if re.match(r"[0-9, ]+$", row[0])])
def test_a_status_means_what_the_page_says(row: list[str]) -> None:
    """Each row of plain statuses gives its result and code."""
    answer, result, code = row
    for status in answer.split(", "):
        exchange = HttpExchange(
            phase=Phase.BODY, error=None, status=int(status), body_sha256=hashlib.sha256().hexdigest(), elapsed_ms=1
        )
        decided = rail_answer.result_of(exchange, datetime(2026, 1, 1, tzinfo=UTC))

        assert type(decided).__name__.lower() == result
        if isinstance(decided, Retryable | Permanent):
            assert decided.reason.code.value == code.strip("`")


def test_the_page_names_every_permanent_status() -> None:
    """No status with a code of its own is missing from the page."""
    named = {int(status) for row in rows("What an answer means") for status in re.findall(r"\b4[0-9]{2}\b", row[0])}

    assert set(rail_answer.PERMANENT_CODES) | rail_answer.RETRYABLE_STATUSES | {409} == named


def test_the_settings_table_is_that_of_the_code() -> None:
    """Variables, defaults and sentences are those of the class."""
    expected = [
        [f"`{PREFIX}{name.upper()}`", _shown(field.get_default()), field.description]
        for name, field in RailSettings.model_fields.items()
    ]

    assert rows("Settings") == expected


def test_the_table_of_steps_has_every_kind_and_each_is_read() -> None:
    """Each step of the page is one the simulator reads, and no kind is missing."""
    texts = [text for row in rows("Try it on a rail that misbehaves") for text in re.findall(r"`([^`]+)`", row[0])]
    written = {re.sub(r"\b(N|S|BYTES|RETRY_AFTER)\b", "1", text).replace("CODE", "503") for text in texts}

    for text in written:
        assert steps_of([text])
    assert {text.partition(":")[0] for text in texts} >= {kind.value for kind in Kind}


def _shown(default: object) -> str:
    if default is None or repr(default) == "PydanticUndefined":
        return ""
    return str(default).lower()
