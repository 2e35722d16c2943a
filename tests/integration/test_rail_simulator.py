"""The rail simulator over real sockets: it does what its script says, and each effect once."""

import json
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from reliability.errors import ConfigurationError
from reliability.settlement import SettlementOutcome
from tasks.hooks import http_loop
from tasks.hooks.http_client import HttpClient
from tasks.hooks.http_exchange import ErrorKind, HttpExchange, HttpRequest, Phase
from tests.support.observations import observation
from tests.support.rail import RunningRail, running_rail, scripted
from worker.simulators import effect_log, rail_answers
from worker.simulators.rail_script import Kind, RailScript, Step, steps_of


@pytest.fixture(autouse=True)
def _fresh_loop() -> Iterator[None]:
    yield
    http_loop.shut_down()


@pytest.fixture
def log_path(tmp_path: Path) -> Path:
    """Name the log of one test's rail."""
    return tmp_path / "rail" / "effects.jsonl"


def post(
    rail: RunningRail, tool_name: str, key: str = "rcpt-1", *, units: int = 5, deadline_s: float = 15.0
) -> HttpExchange:
    """Post an observation of this tool."""
    body = observation(tool_name=tool_name, amount={"units": units, "currency": "EUR"}).canonical_json()
    headers = {"Idempotency-Key": key} if key else {}
    return HttpClient().post(HttpRequest(url=rail.url, body=body, headers=headers, total_deadline_s=deadline_s))


def statuses(rail: RunningRail, tool_name: str, requests: int) -> list[int | None]:
    """Post the same observation several times and return the statuses."""
    return [post(rail, tool_name).status for _ in range(requests)]


def transcript(exchange: HttpExchange) -> object:
    """Return the transcript id of an answer."""
    return json.loads(exchange.body)["transcript_id"]


@pytest.mark.parametrize(
    "tool_name, expected, effects",
    [
        ("search.query", [200, 200], 1),
        ("rail.ok", [200, 200], 1),
        ("rail.fail-once", [503, 200, 200], 1),
        ("rail.fail-twice", [503, 503, 200, 200], 1),
        ("rail.fail-3", [503, 503, 503, 200], 1),
        ("rail.always-503", [503, 503, 503], 0),
        ("rail.500", [500, 500], 0),
        ("rail.422", [422, 422], 0),
        ("rail.pending", [202, 202], 0),
        ("rail.202", [202, 202], 0),
        ("rail.429-2", [429, 429], 0),
        ("rail.409", [409, 200], 1),
        ("rail.conflict", [409, 200], 1),
        ("rail.slow-0.01", [200, 200], 1),
        ("rail.reset-after-body", [None, 200], 1),
        ("rail.reset-before-body", [None, 200], 1),
        ("rail.huge-200000", [200, 200], 1),
        ("rail.gzip-bomb-100000", [200, 200], 1),
        ("rail.outcome-skipped", [200, 200], 0),
        ("rail.no-such-step", [200, 200], 1),
        ("rail.", [200, 200], 1),
        ("rail.fail-", [200, 200], 1),
    ],
)
def test_a_tool_name_scripts_the_rail(log_path: Path, tool_name: str, expected: list[int | None], effects: int) -> None:
    """By convention a tool name says what the rail does, and however often it is asked, an effect happens once."""
    with running_rail(log_path) as rail:
        answered = statuses(rail, tool_name, len(expected))

    assert answered == expected
    assert rail.tally().effects == effects
    assert rail.tally().keys_with_several_effects == []


@pytest.mark.parametrize(
    "tool_name, phase, error, status",
    [
        ("rail.hang", Phase.SENT, ErrorKind.TIMEOUT, None),
        ("rail.drip-headers", Phase.SENT, ErrorKind.TIMEOUT, None),
        ("rail.drip-body", Phase.STATUS, ErrorKind.TIMEOUT, 200),
        ("rail.slow-20", Phase.SENT, ErrorKind.TIMEOUT, None),
        ("rail.reset-after-body", Phase.SENT, ErrorKind.RESET, None),
    ],
)
def test_a_client_is_left_in_the_dark_as_scripted(
    log_path: Path, tool_name: str, phase: Phase, error: ErrorKind, status: int | None
) -> None:
    """Steps without a proper answer look to the client like what they are named after."""
    with running_rail(log_path) as rail:
        exchange = post(rail, tool_name, deadline_s=1.0 if error is ErrorKind.TIMEOUT else 15.0)

    assert (exchange.phase, exchange.error, exchange.status) == (phase, error, status)


def test_a_retry_after_is_answered_as_scripted(log_path: Path) -> None:
    """A status may carry a Retry-After, in any form."""
    script = scripted({"t": ["429:7", "503:Wed, 21 Oct 2026 07:28:00 GMT", "ok"]})
    with running_rail(log_path, script) as rail:
        first, second, third = (post(rail, "t") for _ in range(3))

    assert (first.status, first.headers["retry-after"]) == (429, "7")
    assert (second.status, second.headers["retry-after"]) == (503, "Wed, 21 Oct 2026 07:28:00 GMT")
    assert third.status == 200


@pytest.mark.parametrize("repeat, status", [("ok", 200), ("conflict", 409)])
def test_a_repeat_gets_the_same_transcript(log_path: Path, repeat: str, status: int) -> None:
    """The same bytes under the same key settle nothing again and name the first transcript."""
    with running_rail(log_path, scripted({}, repeat=repeat)) as rail:
        first, second = post(rail, "t"), post(rail, "t")

    assert (first.status, second.status) == (200, status)
    assert transcript(first) == transcript(second)
    assert [entry.effect for entry in rail.entries()] == [True, False]


def test_other_bytes_under_a_key_are_refused(log_path: Path) -> None:
    """A key that comes with other bytes gets 422, and the log names it."""
    with running_rail(log_path) as rail:
        first, second, third = post(rail, "t"), post(rail, "t", units=6), post(rail, "t")

    assert (first.status, second.status, third.status) == (200, 422, 200)
    assert rail.tally().keys_with_differing_bodies == ["rcpt-1"]
    assert rail.tally().effects == 1


def test_a_request_without_a_key_is_refused(log_path: Path) -> None:
    """A request that names no key settles nothing."""
    with running_rail(log_path) as rail:
        exchange = post(rail, "t", key="")

    assert exchange.status == 400
    assert rail.tally().effects == 0


def test_every_request_is_a_line_of_the_log(log_path: Path) -> None:
    """The log has one line per request, in order, with key, attempt, digest, step, answer and effect."""
    with running_rail(log_path) as rail:
        exchanges = [post(rail, "rail.fail-once", key="a"), post(rail, "rail.fail-once", key="a")]
        entries = rail.entries()

    assert [exchange.status for exchange in exchanges] == [503, 200]
    assert [(entry.key, entry.attempt, entry.step, entry.answer, entry.effect) for entry in entries] == [
        ("a", 1, "always:503", "503", False),
        ("a", 2, "ok", "200", True),
    ]
    assert entries[0].body_sha256 == entries[1].body_sha256
    assert entries[1].transcript_id == transcript(exchanges[1])


def test_stats_are_the_tally_of_the_log(log_path: Path) -> None:
    """The counts it answers are those that its log gives."""
    with running_rail(log_path) as rail:
        post(rail, "rail.fail-once")
        post(rail, "rail.fail-once")
        post(rail, "t", key="b")
        stats = rail.stats()

    assert stats == rail.tally().to_json()
    assert stats["effects"] == 2
    assert stats["answers"] == {"200": 2, "503": 1}


def test_a_rail_that_restarts_remembers(log_path: Path) -> None:
    """On the same log a new rail settles nothing again, and a line that was torn by a kill is dropped."""
    with running_rail(log_path) as rail:
        first = post(rail, "rail.reset-after-body")
    with log_path.open("a") as log:
        log.write('{"at_ms":1,"key":"torn')

    with running_rail(log_path) as rail:
        second = post(rail, "rail.reset-after-body")

    assert (first.status, second.status) == (None, 200)
    assert [(entry.step, entry.effect) for entry in rail.entries()] == [("reset-after-body", True), ("repeat", False)]


def test_an_outcome_step_answers_an_outcome_document(log_path: Path) -> None:
    """The outcome steps answer documents that decode as what they are named after."""
    with running_rail(log_path) as rail:
        kinds = [
            type(SettlementOutcome.from_json(post(rail, f"rail.outcome-{name}", key=name).body)).__name__
            for name in ("skipped", "retryable", "permanent")
        ]

    assert kinds == ["Skipped", "Retryable", "Permanent"]


@pytest.mark.parametrize("suffix", ["json", "toml"])
def test_a_script_file_goes_before_the_tool_name(tmp_path: Path, log_path: Path, suffix: str) -> None:
    """Patterns of receipts count first, then patterns of tools, then the convention, then the default."""
    path = tmp_path / f"script.{suffix}"
    path.write_text(
        '{"receipts": {"rcpt-x-*": ["fail:1"]}, "tools": {"rail.422": ["500"]}, "default": ["404"]}'
        if suffix == "json"
        else 'default = ["404"]\n[receipts]\n"rcpt-x-*" = ["fail:1"]\n[tools]\n"rail.422" = ["500"]\n'
    )

    with running_rail(log_path, RailScript.from_file(path)) as rail:
        by_receipt = post(rail, "rail.422", key="rcpt-x-1")
        by_tool = post(rail, "rail.422", key="rcpt-y")
        by_convention = post(rail, "rail.503", key="rcpt-z")
        by_default = post(rail, "anything", key="rcpt-d")

    assert [e.status for e in (by_receipt, by_tool, by_convention, by_default)] == [503, 500, 503, 404]


@pytest.mark.parametrize(
    "text, problem",
    [
        ("{", "expected readable JSON or TOML"),
        ("[]", "expected the script to be an object"),
        ('{"receipt": {}}', "expected only default, receipts, repeat, tools, got: receipt"),
        ('{"receipts": []}', "expected receipts to be an object"),
        ('{"receipts": {"a": "ok"}}', r"expected receipts\.a to be a list of steps"),
        ('{"receipts": {"a": []}}', "expected at least one step"),
        ('{"receipts": {"a": ["okay"]}}', "expected a step such as ok, fail:2 or 422, got: 'okay'"),
        ('{"receipts": {"a": ["ok:1"]}}', "expected ok without a number"),
        ('{"receipts": {"a": ["fail:0"]}}', "expected fail:1 to fail:1000"),
        ('{"receipts": {"a": ["always:99"]}}', "expected always:200 to always:599"),
        ('{"receipts": {"a": [5]}}', r"expected receipts\.a to be a list of steps"),
        ('{"default": "ok"}', "expected default to be a list of steps"),
        ('{"repeat": "500"}', "expected repeat to be ok or conflict, got: '500'"),
    ],
)
def test_a_wrong_script_says_what_is_wrong(tmp_path: Path, text: str, problem: str) -> None:
    """A script that cannot be used is refused with its file and the place in it."""
    path = tmp_path / "script.json"
    path.write_text(text)

    with pytest.raises(ConfigurationError, match=problem) as refused:
        RailScript.from_file(path)

    assert "script.json" in str(refused.value)


def test_a_missing_script_is_named(tmp_path: Path) -> None:
    """A script that is not there is refused with its path."""
    with pytest.raises(ConfigurationError, match=r"nowhere\.json"):
        RailScript.from_file(tmp_path / "nowhere.json")


def test_passing_trouble_is_followed_by_settling() -> None:
    """`fail:N` is N times 503, then what follows, and `ok` where nothing does."""
    assert [str(step) for step in steps_of(["fail:2"])] == ["always:503", "always:503", "ok"]
    assert [str(step) for step in steps_of(["fail:1", "422"])] == ["always:503", "always:422"]


@pytest.mark.parametrize("kind", list(Kind))
def test_every_step_has_an_answer(kind: Kind) -> None:
    """No step exists that the rail cannot carry out or name in its log."""
    assert kind in rail_answers._ANSWERS
    assert rail_answers.name_of(Step(kind=kind, number=503))


def test_the_rail_runs_as_a_process_until_it_is_told_to_stop(tmp_path: Path, log_path: Path) -> None:
    """`run_rail` names its address first, settles, and ends in order on SIGTERM with its log complete."""
    code = textwrap.dedent("""
        import sys
        from pathlib import Path
        from worker.simulators.rail import run_rail

        run_rail("127.0.0.1", 0, None, Path(sys.argv[1]))
    """)
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(log_path)], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        exchange = post(RunningRail(port=int(address.rpartition(":")[2]), log_path=log_path), "t")
        process.send_signal(signal.SIGTERM)
        exit_code = process.wait(20)
    finally:
        process.kill()
        process.communicate()

    assert exchange.status == 200
    assert exit_code == 0
    assert effect_log.tally(effect_log.read(log_path)).effects == 1
