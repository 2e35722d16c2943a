"""`chio-worker partners`: what an operator reads about the partner file and about a decision."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from reliability.errors import ChioError, ConfigurationError, InvalidInputError
from tests.support import partner_file
from worker.cli.partners import app

TERMS = """
retry = { max_retries = 3, initial_backoff_ms = 1000, backoff_multiplier = 10, backoff_cap_ms = 60000 }
jitter_ms = 50
honour_delivery_headers = true
status_rules = { "404" = "failure_confirmed" }
body_rule = { outcome = "failure_confirmed", error_member = "error" }
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Write a partner file with terms to explain."""
    return partner_file.write(tmp_path, partner_file.MINIMAL + TERMS)


def run(*arguments: str, file: Path, environ: dict[str, str] | None = None) -> Result:
    """Run the sub-command with the secrets of tests in the environment."""
    secrets = dict(partner_file.ENVIRON) if environ is None else environ
    return CliRunner(env={"CHIO_PARTNERS_FILE": str(file), **secrets}).invoke(app, list(arguments))


def explained(*arguments: str, file: Path) -> dict[str, object]:
    """Explain an answer and return the JSON document."""
    result = run("explain", "acme", *arguments, "--json", file=file)
    assert result.exit_code == 0, result.output
    document: dict[str, object] = json.loads(result.stdout)
    return document


def test_check_lists_the_partners_and_no_secret(file: Path) -> None:
    """What is printed names where each secret comes from and never shows one."""
    result = run("check", file=file)

    assert result.exit_code == 0
    assert "acme" in result.stdout
    assert "env:ACME_SECRET" in result.stdout
    assert partner_file.SECRET not in result.output


def test_check_as_json(file: Path) -> None:
    """The document has each partner with its horizon."""
    result = run("check", str(file), "--json", file=file)

    assert json.loads(result.stdout) == {
        "partners": [
            {
                "partner_id": "acme",
                "url": "https://hooks.acme.example/chio",
                "secrets": ["env:ACME_SECRET"],
                "max_retries": 3,
                "horizon_ms": 71_000,
                "deadline_s": 15.0,
                "disabled": False,
            }
        ]
    }


def test_check_of_a_file_that_does_not_hold_fails(file: Path) -> None:
    """A missing secret fails the check with the sentence that the command line prints."""
    result = run("check", file=file, environ={})

    assert isinstance(result.exception, ConfigurationError)
    assert "env:ACME_SECRET is not set" in str(result.exception)


def test_check_without_a_file_says_what_to_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no setting names a file, the refusal says how to."""
    monkeypatch.chdir(tmp_path)

    result = CliRunner(env={"CHIO_PARTNERS_FILE": None}).invoke(app, ["check"])

    assert isinstance(result.exception, ConfigurationError)
    assert "set CHIO_PARTNERS_FILE" in str(result.exception)


def test_indeterminate_answer_lists_all_remaining_attempts(file: Path) -> None:
    """The document has the decision, its rule, and each attempt with its wait."""
    assert explained("503", "Retry-After: 5", file=file) == {
        "outcome": "indeterminate",
        "should_retry": True,
        "delay_ms": 5_000,
        "rule": "status.503",
        "row": 17,
        "code": "backend",
        "disables_endpoint": False,
        "jitter_ms": 50,
        "next_attempts": [
            {"attempt": 1, "delay_ms": 5_000, "after_ms": 5_000},
            {"attempt": 2, "delay_ms": 10_000, "after_ms": 15_000},
            {"attempt": 3, "delay_ms": 60_000, "after_ms": 75_000},
        ],
        "ends_by": "attempts",
    }


def test_later_attempt_has_fewer_left(file: Path) -> None:
    """The attempts are those after the one that was asked about."""
    document = explained("500", "--attempt", "2", file=file)

    assert document["next_attempts"] == [{"attempt": 3, "delay_ms": 60_000, "after_ms": 60_000}]


def test_last_attempt_has_none_left(file: Path) -> None:
    """After the last attempt nothing follows, and the document says so."""
    document = explained("500", "--attempt", "3", file=file)

    assert (document["should_retry"], document["delay_ms"], document["next_attempts"]) == (False, None, [])
    assert document["ends_by"] == "attempts"


def test_elapsed_budget_ends_the_list(tmp_path: Path) -> None:
    """Attempts past the elapsed budget are not promised."""
    file = partner_file.write(tmp_path, f"{partner_file.MINIMAL}{TERMS}max_elapsed_s = 12")

    document = explained("500", file=file)

    assert [each["attempt"] for each in document["next_attempts"]] == [1, 2]  # type: ignore[attr-defined]  # a list of objects
    assert document["ends_by"] == "elapsed"


@pytest.mark.parametrize(
    "arguments, outcome, rule",
    [
        (("200",), "success_confirmed", "status.2xx"),
        (("200", "--body", '{"error":1}'), "failure_confirmed", "body.error_member"),
        (("404",), "failure_confirmed", "partner.status.404"),
        (("500", "webhook-delivery: abort-message"), "failure_confirmed", "header.webhook-delivery.abort-message"),
        (("policy",), "failure_confirmed", "phase.policy"),
        (("sent",), "indeterminate", "phase.sent"),
    ],
)
def test_decision_names_its_rule(file: Path, arguments: tuple[str, ...], outcome: str, rule: str) -> None:
    """Statuses, phases, headers and bodies are decided as a worker decides them."""
    document = explained(*arguments, file=file)

    assert (document["outcome"], document["rule"]) == (outcome, rule)


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (("200",), "the delivery is done"),
        (("410",), "a dead letter now, and nothing more is sent to this partner"),
        (("503",), "the same bytes are sent again, each wait up to 50 ms longer by jitter"),
        (("503", "--attempt", "3"), "a dead letter now: the attempts are used up"),
        (("404",), "failure_confirmed, by rule partner.status.404 (the partner file)"),
        (("503",), "indeterminate, by rule status.503 (row 17 of docs/partners.md)"),
    ],
)
def test_explanation_for_people(file: Path, arguments: tuple[str, ...], sentence: str) -> None:
    """The sentences say what happens, why, and where the rule stands."""
    assert sentence in run("explain", "acme", *arguments, file=file).stdout


def test_pending_partner_waits(tmp_path: Path) -> None:
    """A partner that confirms later makes a delivery wait for its receipt."""
    file = partner_file.write(tmp_path, f"{partner_file.MINIMAL}accepts_pending = true")

    result = run("explain", "acme", "202", file=file)

    assert "the delivery waits for its receipt" in result.stdout


@pytest.mark.parametrize(
    "arguments, problem",
    [
        (("nobody", "200"), "partner: expected one of acme"),
        (("acme", "soon"), "answer: expected a status such as 503, or one of policy, dns"),
        (("acme", "99"), "answer: expected a status such as 503"),
        (("acme", "200", "Retry-After 5"), "header: expected a header such as"),
    ],
)
def test_question_that_makes_no_sense_is_refused(file: Path, arguments: tuple[str, ...], problem: str) -> None:
    """Each refusal says what is expected."""
    error = run("explain", *arguments, file=file).exception

    assert isinstance(error, InvalidInputError)
    assert isinstance(error, ChioError)
    assert problem in str(error)
