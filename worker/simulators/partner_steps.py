"""
The steps of the simulated partner: what it does with one request, and how a script writes that.

A list of steps is walked by the number of a message's request; the last step goes on for ever.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from reliability.errors import ConfigurationError


class Kind(StrEnum):
    """Name what a step does; an argument follows a colon."""

    #: Take the message and answer 200 with the text OK.
    OK = "ok"
    #: Answer this status; 2xx takes the message. `429:120`, `503:imf+2`: with Retry-After.
    STATUS = "status"
    #: Answer 503 to so many requests, then do what follows, or take it.
    FAIL = "fail"
    #: Hang up without reading while the simulator is `A-B` seconds old, else take the message.
    DOWN = "down"
    #: Take the message, then answer after so many seconds.
    SLOW = "slow"
    #: Answer 302 to another path of this simulator.
    REDIRECT = "redirect"
    #: Answer 302 to a cloud's metadata address.
    REDIRECT_PRIVATE = "redirect-private"
    #: Take the message and answer 200 with an error document.
    BODY_ERROR = "body-error"
    #: Answer 500 and ask to end the message, or the subscription.
    ABORT_MESSAGE = "abort-message"
    DISABLE = "disable"
    #: Take the message, answer 202 and send a receipt after so many seconds that confirms or denies it.
    CONFIRM_LATE = "confirm-late"
    DENY_LATE = "deny-late"
    #: Take the message, answer 202 and say nothing more.
    NEVER_CONFIRM = "never-confirm"
    #: Hang up as soon as the headers are there, without reading the body.
    RESET_BEFORE_BODY = "reset-before-body"
    #: Take the message, then hang up without an answer.
    RESET_AFTER_BODY = "reset-after-body"
    #: Neither take nor answer.
    HANG = "hang"
    #: Take the message, then send one header line every so many seconds, without end.
    DRIP_HEADERS = "drip-headers"
    #: Take the message, answer 200, then send one byte of the body every so many seconds, without end.
    DRIP_BODY = "drip-body"
    #: Take the message and answer 200 with a body of so many bytes, without end, or of zeros, compressed.
    HUGE = "huge"
    ENDLESS = "endless"
    GZIP_BOMB = "gzip-bomb"


#: A receipt follows these, or was promised.
PENDING: frozenset[Kind] = frozenset({Kind.CONFIRM_LATE, Kind.DENY_LATE, Kind.NEVER_CONFIRM})
#: These never take the message.
NOT_TAKING: frozenset[Kind] = frozenset(
    {
        Kind.FAIL,
        Kind.REDIRECT,
        Kind.REDIRECT_PRIVATE,
        Kind.ABORT_MESSAGE,
        Kind.DISABLE,
        Kind.RESET_BEFORE_BODY,
        Kind.HANG,
    }
)
_DEFAULT_NUMBERS: Mapping[Kind, float] = {
    Kind.FAIL: 1,
    Kind.SLOW: 1,
    Kind.CONFIRM_LATE: 1,
    Kind.DENY_LATE: 1,
    Kind.DRIP_HEADERS: 0.05,
    Kind.DRIP_BODY: 0.05,
    Kind.HUGE: 10_000_000,
    Kind.GZIP_BOMB: 10_000_000,
}
_STATUS = re.compile(r"(?P<status>[2-5][0-9]{2})(:(?P<retry_after>[^/]+))?")
_DOWN = re.compile(r"down:(?P<from>[0-9]{1,6}(\.[0-9]{1,3})?)-(?P<to>[0-9]{1,6}(\.[0-9]{1,3})?)")
_NAMED = re.compile(r"(?P<kind>[a-z-]+)(:(?P<number>[0-9]{1,9}(\.[0-9]{1,3})?))?")
_FIRST_SUCCESS, _LAST_SUCCESS, _UNAVAILABLE = 200, 299, 503


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Hold one step with its arguments."""

    kind: Kind
    number: float = 0
    #: As the script writes it: seconds, `imf+2`, `rfc850+2`, `asctime-60`, or any other text.
    retry_after: str | None = None
    #: Seconds since the simulator began, for `down`.
    down_s: tuple[float, float] = (0, 0)

    def __str__(self) -> str:
        return f"{self.kind}:{self.number:g}" if self.number else self.kind.value

    def takes(self, age_s: float) -> bool:
        """Tell whether the partner acts on a message that meets this step."""
        match self.kind:
            case Kind.STATUS:
                return _FIRST_SUCCESS <= self.number <= _LAST_SUCCESS
            case Kind.DOWN:
                return not self.is_down(age_s)
            case _:
                return self.kind not in NOT_TAKING

    def is_down(self, age_s: float) -> bool:
        """Tell whether the partner is down at this age of the simulator."""
        return self.kind is Kind.DOWN and self.down_s[0] <= age_s < self.down_s[1]


OK = Step(kind=Kind.OK)


def steps_of(texts: Sequence[str]) -> tuple[Step, ...]:
    """
    Read steps such as `["fail:2", "ok"]`; trouble that passes is followed by `ok` where nothing else follows.

    Raises:
        ConfigurationError: A text is no step, or there is none.

    """
    if not texts:
        raise ConfigurationError("expected at least one step, got none")
    steps = [_step(text) for text in texts]
    if steps[-1].kind is Kind.FAIL:
        steps.append(OK)
    return tuple(each for step in steps for each in _repeated(step))


def _repeated(step: Step) -> Sequence[Step]:
    unavailable = Step(kind=Kind.STATUS, number=_UNAVAILABLE)
    return [unavailable] * int(step.number) if step.kind is Kind.FAIL else [step]


def _step(text: str) -> Step:
    if found := _STATUS.fullmatch(text):
        return Step(kind=Kind.STATUS, number=int(found["status"]), retry_after=found["retry_after"])
    if found := _DOWN.fullmatch(text):
        return Step(kind=Kind.DOWN, down_s=(float(found["from"]), float(found["to"])))
    found = _NAMED.fullmatch(text)
    named = found["kind"] if found else ""
    if found is None or named not in frozenset(Kind) or named in {Kind.STATUS, Kind.DOWN}:
        raise ConfigurationError(f"expected a step such as ok, fail:2, 429:120 or down:2-8, got: {text!r}")
    kind = Kind(named)
    if found["number"] and kind not in _DEFAULT_NUMBERS:
        raise ConfigurationError(f"expected {kind} without a number, got: {text!r}")
    return Step(kind=kind, number=float(found["number"] or _DEFAULT_NUMBERS.get(kind, 0)))
