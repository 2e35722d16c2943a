"""How the simulated partner's steps are written, and which of them take the message."""

from pathlib import Path

import pytest

from reliability.errors import ConfigurationError
from worker.simulators.partner_script import PartnerScript, ReceiptTarget
from worker.simulators.partner_steps import Kind, Step, steps_of


@pytest.mark.parametrize(
    "text, step",
    [
        ("ok", Step(kind=Kind.OK)),
        ("503", Step(kind=Kind.STATUS, number=503)),
        ("429:120", Step(kind=Kind.STATUS, number=429, retry_after="120")),
        ("503:imf+2", Step(kind=Kind.STATUS, number=503, retry_after="imf+2")),
        ("down:2-8.5", Step(kind=Kind.DOWN, down_s=(2, 8.5))),
        ("slow:0.2", Step(kind=Kind.SLOW, number=0.2)),
        ("slow", Step(kind=Kind.SLOW, number=1)),
        ("confirm-late:2", Step(kind=Kind.CONFIRM_LATE, number=2)),
        ("reset-after-body", Step(kind=Kind.RESET_AFTER_BODY)),
    ],
)
def test_step_as_it_is_written(text: str, step: Step) -> None:
    """A step is a name or a status, with its argument after a colon."""
    assert steps_of([text]) == (step,)


def test_failing_so_many_times_ends_in_taking() -> None:
    """`fail:2` is two 503, then the message is taken unless something else follows."""
    assert [str(step) for step in steps_of(["fail:2"])] == ["status:503", "status:503", "ok"]
    assert [str(step) for step in steps_of(["fail:1", "410"])] == ["status:503", "status:410"]


@pytest.mark.parametrize("text", ["", "okay", "99", "600", "ok:5", "status:200", "down", "down:5", "slow:x", "410 "])
def test_text_that_is_no_step_is_refused(text: str) -> None:
    """What cannot be meant is named with what can."""
    with pytest.raises(ConfigurationError):
        steps_of([text])


@pytest.mark.parametrize(
    "text, takes",
    [
        ("ok", True),
        ("204", True),
        ("301", False),
        ("500", False),
        ("reset-after-body", True),
        ("reset-before-body", False),
        ("hang", False),
        ("drip-headers", True),
        ("never-confirm", True),
        ("disable", False),
        ("redirect", False),
    ],
)
def test_which_steps_take_the_message(text: str, *, takes: bool) -> None:
    """Only what acts on the message counts as an effect."""
    (step,) = steps_of([text])

    assert step.takes(age_s=0) is takes


@pytest.mark.parametrize("age_s, is_down", [(1.9, False), (2, True), (7.9, True), (8, False)])
def test_partner_is_down_for_a_while(age_s: float, *, is_down: bool) -> None:
    """Within its window the partner does not act, before and after it does."""
    (step,) = steps_of(["down:2-8"])

    assert (step.is_down(age_s), step.takes(age_s)) == (is_down, not is_down)


def test_script_is_read_from_json_and_toml(tmp_path: Path) -> None:
    """Both forms say the same."""
    (tmp_path / "s.json").write_text('{"messages": {"bad-*": ["422"]}, "receipts": {"url": "http://127.0.0.1:1/"}}')
    (tmp_path / "s.toml").write_text('messages = { "bad-*" = ["422"] }\nreceipts = { url = "http://127.0.0.1:1/" }')

    script = PartnerScript.from_file(tmp_path / "s.json")

    assert script == PartnerScript.from_file(tmp_path / "s.toml")
    assert script.receipts == ReceiptTarget(url="http://127.0.0.1:1/")


def test_most_particular_steps_count() -> None:
    """The script by message comes before the path, the path before the script by partner, then the default."""
    script = PartnerScript.from_document(
        {"messages": {"bad-*": ["422"]}, "partners": {"slow": ["slow:2"]}, "default": ["202"]}
    )

    found = [
        str(script.steps(partner_id, message_id, in_path)[0])
        for partner_id, message_id, in_path in [
            ("slow", "bad-1", ["ok"]),
            ("slow", "msg", ["ok"]),
            ("slow", "msg", []),
            ("acme", "msg", []),
        ]
    ]

    assert found == ["status:422", "ok", "slow:2", "status:202"]


@pytest.mark.parametrize(
    "document, problem",
    [
        ([], "expected the script to be an object"),
        ({"step": []}, "expected only default, messages"),
        ({"default": []}, "at least one step"),
        ({"messages": {"a": "ok"}}, "expected messages.a to be a list"),
        ({"secrets": {"a": [5]}}, "expected secrets.a to be a list"),
        ({"receipts": {"path": "x"}}, "expected only file, url in receipts"),
        ({"receipts": {"url": 5}}, "expected receipts to be a list of texts"),
    ],
)
def test_script_that_does_not_hold_is_refused(document: object, problem: str) -> None:
    """The refusal says which part is wrong."""
    with pytest.raises(ConfigurationError, match=problem):
        PartnerScript.from_document(document)


@pytest.mark.parametrize("content", ["{", '{"default": ["nonsense"]}'])
def test_script_file_that_does_not_hold_is_named(tmp_path: Path, content: str) -> None:
    """The file is named whatever is wrong with it."""
    path = tmp_path / "script.json"
    path.write_text(content)

    with pytest.raises(ConfigurationError, match=r"partner script .*script\.json"):
        PartnerScript.from_file(path)
