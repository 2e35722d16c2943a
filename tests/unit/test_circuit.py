"""The circuit breaker as a state machine: every transition, and what no sequence of reports can do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reliability.circuit import (
    Change,
    CircuitPolicy,
    CircuitState,
    Closed,
    HalfOpen,
    IncidentClosed,
    IncidentOpened,
    Open,
    Permission,
    Probe,
    Report,
    Send,
    Signal,
    Wait,
    after,
    begin_probe,
    may_send,
    signal_of,
)
from reliability.delivery import (
    AcceptedPendingVerification,
    DeliveryOutcome,
    FailureConfirmed,
    Indeterminate,
    SuccessConfirmed,
)
from reliability.errors import InvalidInputError

POLICY = CircuitPolicy(failure_threshold=3, cool_down_ms=30_000, probe_lease_ms=60_000)
NOW_MS = 1_700_000_000_000
OPEN = Open(opened_at_ms=NOW_MS, probe_at_ms=NOW_MS + 30_000)
PROBING = HalfOpen(opened_at_ms=NOW_MS, probe_token="probe-1", probe_deadline_at_ms=NOW_MS + 90_000)


def test_defaults_are_the_documented_ones() -> None:
    """A circuit opens after 5 failures in a row and cools down for 30 s."""
    policy = CircuitPolicy()

    assert (policy.failure_threshold, policy.cool_down_ms) == (5, 30_000)


def test_a_policy_of_ones_opens_at_the_first_failure() -> None:
    """The smallest policy is legal and opens at once."""
    policy = CircuitPolicy(failure_threshold=1, cool_down_ms=1, probe_lease_ms=1)

    change = after(policy, Closed(), Report(signal=Signal.FAILURE), NOW_MS)

    assert change.state == Open(opened_at_ms=NOW_MS, probe_at_ms=NOW_MS + 1)


@pytest.mark.parametrize("field", ["failure_threshold", "cool_down_ms", "probe_lease_ms"])
def test_a_policy_of_nothing_is_refused(field: str) -> None:
    """Each number of the policy is at least 1."""
    with pytest.raises(InvalidInputError, match=field):
        CircuitPolicy(**{field: 0})


@pytest.mark.parametrize(
    "outcome, signal",
    [
        (SuccessConfirmed(), Signal.SUCCESS),
        (FailureConfirmed(), Signal.ANSWERED),
        (AcceptedPendingVerification(), Signal.ANSWERED),
        (Indeterminate(), Signal.FAILURE),
        (Indeterminate(not_sent=True), Signal.FAILURE),
        (Indeterminate(counts_for_breaker=False), Signal.THROTTLED),
    ],
)
def test_an_outcome_tells_of_the_partners_health(outcome: DeliveryOutcome, signal: Signal) -> None:
    """Only an indeterminate outcome that counts is a failure, and only a confirmed success is a success."""
    assert signal_of(outcome) is signal


@pytest.mark.parametrize(
    "state, at_ms, permission",
    [
        (Closed(), NOW_MS, Send()),
        (Closed(consecutive_failures=2), NOW_MS, Send()),
        (OPEN, NOW_MS, Wait(30_000)),
        (OPEN, NOW_MS + 29_999, Wait(1)),
        (OPEN, NOW_MS + 30_000, Probe()),
        (OPEN, NOW_MS - 1, Wait(30_001)),
        (PROBING, NOW_MS + 30_000, Wait(60_000)),
        (PROBING, NOW_MS + 90_000, Probe()),
    ],
)
def test_permission_follows_state_and_time(state: CircuitState, at_ms: int, permission: Permission) -> None:
    """Closed sends, open waits for its cool-down, and half-open waits for its probe or the end of its lease."""
    assert may_send(state, at_ms) == permission


@pytest.mark.parametrize("state", [OPEN, PROBING])
def test_a_probe_holds_the_circuit_for_its_lease(state: Open | HalfOpen) -> None:
    """While a probe is out nobody else may send, and the incident keeps its beginning."""
    probing = begin_probe(POLICY, state, "probe-2", NOW_MS + 100_000)

    assert probing == HalfOpen(opened_at_ms=NOW_MS, probe_token="probe-2", probe_deadline_at_ms=NOW_MS + 160_000)
    assert may_send(probing, NOW_MS + 100_000) == Wait(60_000)


def report(signal: Signal, token: str | None = None) -> Report:
    """Make a report."""
    return Report(signal=signal, probe_token=token)


REOPENED = Open(opened_at_ms=NOW_MS, probe_at_ms=NOW_MS + 70_000)
RELEASED = HalfOpen(opened_at_ms=NOW_MS, probe_token=None, probe_deadline_at_ms=NOW_MS + 40_000)
CLOSED_AGAIN = Change(Closed(), IncidentClosed(opened_at_ms=NOW_MS, closed_at_ms=NOW_MS + 40_000))


@pytest.mark.parametrize(
    "state, heard, change",
    [
        (Closed(), report(Signal.FAILURE), Change(Closed(consecutive_failures=1))),
        (Closed(consecutive_failures=2), report(Signal.SUCCESS), Change(Closed())),
        (Closed(consecutive_failures=2), report(Signal.ANSWERED), Change(Closed())),
        (Closed(consecutive_failures=2), report(Signal.THROTTLED), Change(Closed(consecutive_failures=2))),
        (
            Closed(consecutive_failures=2),
            report(Signal.FAILURE),
            Change(
                Open(opened_at_ms=NOW_MS + 40_000, probe_at_ms=NOW_MS + 70_000),
                IncidentOpened(opened_at_ms=NOW_MS + 40_000),
            ),
        ),
        (OPEN, report(Signal.SUCCESS), Change(OPEN)),
        (OPEN, report(Signal.FAILURE), Change(OPEN)),
        (PROBING, report(Signal.SUCCESS, "probe-1"), CLOSED_AGAIN),
        (PROBING, report(Signal.SUCCESS), CLOSED_AGAIN),
        (PROBING, report(Signal.FAILURE, "probe-1"), Change(REOPENED)),
        (PROBING, report(Signal.THROTTLED, "probe-1"), Change(REOPENED)),
        (PROBING, report(Signal.ANSWERED, "probe-1"), Change(RELEASED)),
        (PROBING, report(Signal.FAILURE, "probe-0"), Change(PROBING)),
        (PROBING, report(Signal.FAILURE), Change(PROBING)),
        (RELEASED, report(Signal.FAILURE), Change(RELEASED)),
    ],
)
def test_a_report_changes_the_state_as_documented(state: CircuitState, heard: Report, change: Change) -> None:
    """Each state answers each signal with its row's next state and incident."""
    assert after(POLICY, state, heard, NOW_MS + 40_000) == change


def test_the_circuit_opens_once_and_closes_once() -> None:
    """Failures in a row open it with one event; failed probes tell nothing; a good probe closes it with one event."""
    heard: list[object] = []
    state: CircuitState = Closed()
    for _ in range(5):
        change = after(POLICY, state, report(Signal.FAILURE), NOW_MS)
        state = change.state
        heard.append(change.incident)

    for now_ms, signal in ((NOW_MS + 30_000, Signal.FAILURE), (NOW_MS + 60_000, Signal.SUCCESS)):
        assert may_send(state, now_ms) == Probe()
        assert isinstance(state, Open)
        change = after(POLICY, begin_probe(POLICY, state, "probe", now_ms), report(signal, "probe"), now_ms)
        state = change.state
        heard.append(change.incident)

    told = [incident for incident in heard if incident is not None]
    assert told == [
        IncidentOpened(opened_at_ms=NOW_MS),
        IncidentClosed(opened_at_ms=NOW_MS, closed_at_ms=NOW_MS + 60_000),
    ]
    assert state == Closed()


@given(st.lists(st.tuples(st.sampled_from(Signal), st.booleans(), st.integers(0, 40_000)), max_size=60))
def test_no_sequence_of_reports_wedges_the_circuit(steps: list[tuple[Signal, bool, int]]) -> None:
    """Whatever is reported or never reported, incidents alternate and a delivery may go out after a bounded wait."""
    state: CircuitState = Closed()
    now_ms, probes, told = NOW_MS, 0, list[object]()
    for signal, from_probe, pause_ms in steps:
        now_ms += pause_ms
        if may_send(state, now_ms) == Probe() and not isinstance(state, Closed):
            probes += 1
            state = begin_probe(POLICY, state, f"probe-{probes}", now_ms)
        change = after(POLICY, state, report(signal, f"probe-{probes}" if from_probe else None), now_ms)
        state = change.state
        told += [type(change.incident)] if change.incident else []

    longest_ms = max(POLICY.cool_down_ms, POLICY.probe_lease_ms)
    assert not isinstance(may_send(state, now_ms + longest_ms), Wait)
    assert told == [(IncidentOpened, IncidentClosed)[number % 2] for number in range(len(told))]
    assert isinstance(state, Closed) == (len(told) % 2 == 0)
