"""
The circuit breaker of one partner, as a pure state machine.

Closed counts indeterminate outcomes in a row; open makes deliveries wait; half-open lets one probe at a time through
and closes only on a confirmed success. The stores keep one state per partner and apply these transitions atomically.
"""

from dataclasses import dataclass
from enum import StrEnum, auto
from typing import assert_never

from reliability.delivery import (
    AcceptedPendingVerification,
    DeliveryOutcome,
    FailureConfirmed,
    Indeterminate,
    SuccessConfirmed,
)
from reliability.errors import InvalidInputError


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitPolicy:
    """Set when a circuit opens and how it is probed."""

    #: Indeterminate outcomes in a row that open it.
    failure_threshold: int = 5
    #: Wait before a probe, after it opened or a probe failed, in milliseconds.
    cool_down_ms: int = 30_000
    #: A probe that has not reported by then is given up, in milliseconds; longer than the hook's time limit.
    probe_lease_ms: int = 60_000

    def __post_init__(self) -> None:
        for field in ("failure_threshold", "cool_down_ms", "probe_lease_ms"):
            if getattr(self, field) < 1:
                raise InvalidInputError(field, "expected 1 or more, got less")


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """Deliveries go out."""

    consecutive_failures: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """Deliveries wait until `probe_at_ms`; the incident began at `opened_at_ms`."""

    opened_at_ms: int
    probe_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfOpen:
    """One probe is out, or the next delivery is the next probe."""

    opened_at_ms: int
    #: Whose report counts; None once a probe ended without saying yes or no.
    probe_token: str | None
    #: From then on the probe counts as lost and another may go.
    probe_deadline_at_ms: int


CircuitState = Closed | Open | HalfOpen


@dataclass(frozen=True, slots=True)
class Send:
    """The delivery may go out."""


@dataclass(frozen=True, slots=True)
class Probe:
    """The delivery may go out as the probe, once `begin_probe` has been stored."""


@dataclass(frozen=True, slots=True)
class Wait:
    """The delivery waits, without spending an attempt."""

    remaining_ms: int


Permission = Send | Probe | Wait


class Signal(StrEnum):
    """Say what an outcome tells about the partner's health."""

    #: Confirmed success: closes.
    SUCCESS = auto()
    #: Indeterminate: counts, and fails a probe.
    FAILURE = auto()
    #: Indeterminate but asked for patience (429): does not count, yet does not prove health to a probe.
    THROTTLED = auto()
    #: The partner answered for certain or took it for later: ends a row of failures, closes nothing.
    ANSWERED = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentOpened:
    """The circuit opened; told once per incident."""

    opened_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentClosed:
    """The circuit closed again; told once per incident."""

    opened_at_ms: int
    closed_at_ms: int


Incident = IncidentOpened | IncidentClosed


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Hold what one delivery tells the circuit when it ended; the token is the probe's, None for any other."""

    signal: Signal
    probe_token: str | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """Hold the state to store and the incident to tell of, if any."""

    state: CircuitState
    incident: Incident | None = None


def signal_of(outcome: DeliveryOutcome) -> Signal:
    """Read from an outcome what it tells about the partner's health."""
    match outcome:
        case SuccessConfirmed():
            return Signal.SUCCESS
        case FailureConfirmed() | AcceptedPendingVerification():
            return Signal.ANSWERED
        case Indeterminate(counts_for_breaker=counts):
            return Signal.FAILURE if counts else Signal.THROTTLED
        case _:
            assert_never(outcome)


def may_send(state: CircuitState, now_ms: int) -> Permission:
    """Tell whether a delivery may go out now; asking changes nothing."""
    match state:
        case Closed():
            return Send()
        case Open(probe_at_ms=free_at_ms) | HalfOpen(probe_deadline_at_ms=free_at_ms):
            return Wait(free_at_ms - now_ms) if now_ms < free_at_ms else Probe()
        case _:
            assert_never(state)


def begin_probe(policy: CircuitPolicy, state: Open | HalfOpen, probe_token: str, now_ms: int) -> HalfOpen:
    """Return the state while this probe is out; stored in the same step that answered `Probe`."""
    return HalfOpen(
        opened_at_ms=state.opened_at_ms, probe_token=probe_token, probe_deadline_at_ms=now_ms + policy.probe_lease_ms
    )


def after(policy: CircuitPolicy, state: CircuitState, report: Report, now_ms: int) -> Change:
    """Return what a delivery's end makes of the circuit."""
    match state:
        case Closed():
            return _after_closed(policy, state, report.signal, now_ms)
        case Open():
            # These were sent before it opened. Only a probe's answer is news.
            return Change(state)
        case HalfOpen():
            return _after_half_open(policy, state, report, now_ms)
        case _:
            assert_never(state)


def _after_closed(policy: CircuitPolicy, state: Closed, signal: Signal, now_ms: int) -> Change:
    match signal:
        case Signal.SUCCESS | Signal.ANSWERED:
            return Change(Closed())
        case Signal.THROTTLED:
            return Change(state)
        case Signal.FAILURE:
            failures = state.consecutive_failures + 1
            if failures < policy.failure_threshold:
                return Change(Closed(consecutive_failures=failures))
            opened = Open(opened_at_ms=now_ms, probe_at_ms=now_ms + policy.cool_down_ms)
            return Change(opened, IncidentOpened(opened_at_ms=now_ms))
        case _:
            assert_never(signal)


def _after_half_open(policy: CircuitPolicy, state: HalfOpen, report: Report, now_ms: int) -> Change:
    # A late receipt proves health as well as the probe does; anything else counts only from the probe that is out.
    if report.signal is Signal.SUCCESS:
        return Change(Closed(), IncidentClosed(opened_at_ms=state.opened_at_ms, closed_at_ms=now_ms))
    if report.probe_token is None or report.probe_token != state.probe_token:
        return Change(state)
    if report.signal is Signal.ANSWERED:
        return Change(HalfOpen(opened_at_ms=state.opened_at_ms, probe_token=None, probe_deadline_at_ms=now_ms))
    # The incident goes on: same beginning, a new cool-down, nothing to tell.
    return Change(Open(opened_at_ms=state.opened_at_ms, probe_at_ms=now_ms + policy.cool_down_ms))
