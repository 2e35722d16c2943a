"""
What the simulated rail is to do with which receipt, read from a file or from the receipt's own tool name.

A script is a list of steps per receipt; request number n takes step n, and the last step goes on for ever. Where no
pattern of the script matches, a tool name such as `rail.fail-twice` is the script; any other receipt is settled.
"""

import fnmatch
import json
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Self

from reliability.errors import ConfigurationError


class Kind(StrEnum):
    """Name what a step does; the argument, if it has one, follows a colon."""

    #: Settle and answer 200.
    OK = "ok"
    #: Answer 503 to so many requests, then do what follows, or settle.
    FAIL = "fail"
    #: Answer this status and do nothing.
    ALWAYS = "always"
    #: Answer 202 and do nothing.
    PENDING = "pending"
    #: Settle, and answer 202 all the same: only the status tells that it is done.
    PENDING_SETTLES = "pending-settles"
    #: Settle, and answer 409 as a rail does that had settled before.
    CONFLICT = "conflict"
    #: Settle, then answer 200 after so many seconds.
    SLOW = "slow"
    #: Settle, then hang up without an answer.
    RESET_AFTER_BODY = "reset-after-body"
    #: Hang up without settling, once; then do what follows, or settle.
    RESET_BEFORE_BODY = "reset-before-body"
    #: Neither settle nor answer.
    HANG = "hang"
    #: Settle, then send one header line every so many seconds, without end.
    DRIP_HEADERS = "drip-headers"
    #: Settle and answer 200, then send one byte of the body every so many seconds, without end.
    DRIP_BODY = "drip-body"
    #: Settle and answer 200 with a body of so many bytes.
    HUGE = "huge"
    #: Settle and answer 200 with so many zero bytes, compressed.
    GZIP_BOMB = "gzip-bomb"
    #: Answer 200 with an outcome document that says skipped, retryable or permanent; do nothing.
    OUTCOME_SKIPPED = "outcome-skipped"
    OUTCOME_RETRYABLE = "outcome-retryable"
    OUTCOME_PERMANENT = "outcome-permanent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Hold one step: what to do, with the number it was given, and the Retry-After header of an answer."""

    kind: Kind
    number: float = 0
    retry_after: str | None = None

    def __str__(self) -> str:
        return f"{self.kind}:{self.number:g}" if self.number else self.kind.value


_DEFAULT_NUMBERS: Mapping[Kind, float] = {
    Kind.FAIL: 1,
    Kind.ALWAYS: 503,
    Kind.SLOW: 1,
    Kind.DRIP_HEADERS: 0.05,
    Kind.DRIP_BODY: 0.05,
    Kind.HUGE: 10_000_000,
    Kind.GZIP_BOMB: 10_000_000,
}
_RANGES: Mapping[Kind, tuple[float, float]] = {Kind.FAIL: (1, 1_000), Kind.ALWAYS: (200, 599), Kind.SLOW: (0, 600)}
_STATUS = re.compile(r"(?P<status>[2-5][0-9]{2})(:(?P<retry_after>.+))?")
_NAMED = re.compile(r"(?P<kind>[a-z-]+)(:(?P<number>[0-9]{1,9}(\.[0-9]{1,3})?))?")
_COUNTS = {"once": "1", "twice": "2", "thrice": "3"}
_CONVENTION = "rail."
_SETTLE = (Step(kind=Kind.OK),)
_KEYS = frozenset({"receipts", "tools", "default", "repeat"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RailScript:
    """Hold the patterns of receipt ids and of tool names, each with its steps; the first that matches counts."""

    receipts: Mapping[str, tuple[Step, ...]] = field(default_factory=dict)
    tools: Mapping[str, tuple[Step, ...]] = field(default_factory=dict)
    default: tuple[Step, ...] = _SETTLE
    #: What a repeat of a settled key is answered, with the same transcript either way.
    repeat: Step = Step(kind=Kind.OK)

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """
        Read a script of JSON or, by its suffix, TOML.

        Raises:
            ConfigurationError: With the file and what is wrong in it.

        """
        try:
            text = path.read_text(encoding="utf-8")
            return cls.from_document(tomllib.loads(text) if path.suffix == ".toml" else json.loads(text))
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"rail script {path}: expected readable JSON or TOML, got: {error}") from error
        except ConfigurationError as error:
            raise ConfigurationError(f"rail script {path}: {error}") from error

    @classmethod
    def from_document(cls, document: object) -> Self:
        """
        Read a decoded script.

        Raises:
            ConfigurationError: With what is wrong.

        """
        found = _mapping("the script", document)
        if unknown := sorted(found.keys() - _KEYS):
            raise ConfigurationError(f"expected only {', '.join(sorted(_KEYS))}, got: {unknown[0]}")
        return cls(
            receipts=_patterns("receipts", found.get("receipts", {})),
            tools=_patterns("tools", found.get("tools", {})),
            default=steps_of(_texts("default", found.get("default", ["ok"]))),
            repeat=_repeat(found.get("repeat", "ok")),
        )

    def step(self, receipt_id: str, tool_name: str, attempt: int) -> Step:
        """Return the step for this receipt's request number `attempt`, counted from 1."""
        steps = self._steps(receipt_id, tool_name)
        return steps[min(attempt, len(steps)) - 1]

    def _steps(self, receipt_id: str, tool_name: str) -> tuple[Step, ...]:
        return (
            _first_match(self.receipts, receipt_id)
            or _first_match(self.tools, tool_name)
            or _by_convention(tool_name)
            or self.default
        )


def steps_of(texts: Sequence[str]) -> tuple[Step, ...]:
    """
    Read steps such as `["fail:2", "ok"]`; trouble that passes is followed by `ok` where nothing else follows.

    Raises:
        ConfigurationError: A text is no step, or there is none.

    """
    if not texts:
        raise ConfigurationError("expected at least one step, got none")
    steps = [_step(text) for text in texts]
    if steps[-1].kind in {Kind.FAIL, Kind.RESET_BEFORE_BODY}:
        steps.extend(_SETTLE)
    return tuple(each for step in steps for each in _repeated(step))


def _repeated(step: Step) -> Sequence[Step]:
    return [Step(kind=Kind.ALWAYS, number=503)] * int(step.number) if step.kind is Kind.FAIL else [step]


def _step(text: str) -> Step:
    if found := _STATUS.fullmatch(text):
        return _by_status(int(found["status"]), found["retry_after"])
    found = _NAMED.fullmatch(text)
    if found is None or found["kind"] not in frozenset(Kind):
        raise ConfigurationError(f"expected a step such as ok, fail:2 or 422, got: {text!r}")
    kind = Kind(found["kind"])
    if found["number"] and kind not in _DEFAULT_NUMBERS:
        raise ConfigurationError(f"expected {kind} without a number, got: {text!r}")
    number = float(found["number"] or _DEFAULT_NUMBERS.get(kind, 0))
    lowest, highest = _RANGES.get(kind, (0, math.inf))
    if not lowest <= number <= highest:
        raise ConfigurationError(f"expected {kind}:{lowest:g} to {kind}:{highest:g}, got: {text!r}")
    return Step(kind=kind, number=number)


def _by_status(status: int, retry_after: str | None) -> Step:
    match status:
        case 200:
            return Step(kind=Kind.OK)
        case 202:
            return Step(kind=Kind.PENDING)
        case 409:
            return Step(kind=Kind.CONFLICT)
        case _:
            return Step(kind=Kind.ALWAYS, number=status, retry_after=retry_after)


def _by_convention(tool_name: str) -> tuple[Step, ...] | None:
    """Read `rail.fail-twice` as `fail:2` and `rail.slow-0.2` as `slow:0.2`; None for a name that is no step."""
    if not tool_name.startswith(_CONVENTION):
        return None
    word = tool_name.removeprefix(_CONVENTION)
    head, _, tail = word.rpartition("-")
    number = _COUNTS.get(tail, tail)
    text = f"{head}:{number}" if head and number[:1].isdigit() else word
    try:
        return steps_of([text])
    except ConfigurationError:
        return None


def _first_match(patterns: Mapping[str, tuple[Step, ...]], name: str) -> tuple[Step, ...] | None:
    return next((steps for pattern, steps in patterns.items() if fnmatch.fnmatchcase(name, pattern)), None)


def _repeat(value: object) -> Step:
    answers = {"ok": Step(kind=Kind.OK), "conflict": Step(kind=Kind.CONFLICT)}
    if value not in answers:
        raise ConfigurationError(f"expected repeat to be ok or conflict, got: {value!r}")
    return answers[str(value)]


def _patterns(where: str, value: object) -> Mapping[str, tuple[Step, ...]]:
    return {pattern: steps_of(_texts(f"{where}.{pattern}", texts)) for pattern, texts in _mapping(where, value).items()}


def _mapping(where: str, value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ConfigurationError(f"expected {where} to be an object, got: {type(value).__name__}")
    return value


def _texts(where: str, value: object) -> Sequence[str]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise ConfigurationError(f"expected {where} to be a list of steps, got: {type(value).__name__}")
    return value
