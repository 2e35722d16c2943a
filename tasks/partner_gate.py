"""
What is asked before a delivery leaves and told after it: the partner's circuit, rate and concurrency.

Waiting here spends no attempt. The state machine is `reliability.circuit`; the store only compares and sets, so of
all workers one probes and each incident is told once.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, assert_never

from reliability import circuit
from reliability.clock import Clock
from reliability.errors import StorageUnavailableError
from reliability.events import Event
from storage.jobs import GateLimits
from storage.protocols import CircuitStorage, GateStorage
from tasks.emit import emit, warn

#: Deliveries held back by one partner come back at most this often: 50 a second.
RETURN_SPACING_MS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Entered:
    """The delivery may go out; the token is told back when it ended."""

    token: str
    is_probe: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBack:
    """The delivery comes again in `delay_ms`, with the same attempt."""

    delay_ms: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartnerLimits:
    """Hold one partner's circuit policy and traffic limits."""

    circuit: circuit.CircuitPolicy
    gate: GateLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class PartnerGate:
    """Ask the fleet's shared state whether a partner may be called."""

    circuits: CircuitStorage
    gates: GateStorage
    clock: Clock
    new_token: Callable[[], str]

    def enter(self, partner_id: str, limits: PartnerLimits) -> Entered | HeldBack:
        """
        Let one delivery through, or say when it comes again.

        Raises:
            StorageUnavailableError: if the state cannot be read; nothing is sent then.

        """
        token = self.new_token()
        # The gate comes first: a probe that was granted and then held back would block the circuit for a while.
        wait_ms = self.gates.enter(partner_id, token, limits.gate)
        if wait_ms > 0:
            return self._held_back(partner_id, wait_ms, "rate limit")
        permission = self._ask(partner_id, limits.circuit, token)
        match permission:
            case circuit.Send():
                return Entered(token=token, is_probe=False)
            case circuit.Probe():
                return Entered(token=token, is_probe=True)
            case circuit.Wait(remaining_ms=remaining_ms):
                self.gates.leave(partner_id, token)
                return self._held_back(partner_id, remaining_ms, "circuit open")
            case _:
                assert_never(permission)

    def leave(self, partner_id: str, limits: PartnerLimits, entered: Entered, signal: circuit.Signal) -> None:
        """Tell what became of the delivery. An unreachable store is left alone: leases give up what was not told."""
        report = circuit.Report(signal=signal, probe_token=entered.token if entered.is_probe else None)
        with suppress(StorageUnavailableError):
            self.gates.leave(partner_id, entered.token)
            self._tell(partner_id, limits.circuit, report)

    def _held_back(self, partner_id: str, wait_ms: int, why: str) -> HeldBack:
        return HeldBack(delay_ms=self.gates.turn_ms(partner_id, wait_ms, RETURN_SPACING_MS), why=why)

    def _ask(self, partner_id: str, policy: circuit.CircuitPolicy, token: str) -> circuit.Permission:
        while True:
            state, now_ms = self.circuits.load(partner_id), self.clock.now_ms()
            permission = circuit.may_send(state, now_ms)
            if not isinstance(permission, circuit.Probe) or isinstance(state, circuit.Closed):
                return permission
            probing = circuit.begin_probe(policy, state, token, now_ms)
            if self.circuits.compare_and_set(partner_id, state, probing):
                return permission

    def _tell(self, partner_id: str, policy: circuit.CircuitPolicy, report: circuit.Report) -> None:
        while True:
            state = self.circuits.load(partner_id)
            change = circuit.after(policy, state, report, self.clock.now_ms())
            if change.state == state or self.circuits.compare_and_set(partner_id, state, change.state):
                return announce(partner_id, change.incident)


def announce(partner_id: str, incident: circuit.Incident | None) -> None:
    """Log the incident, if there is one. Only the caller whose change was stored has it."""
    match incident:
        case circuit.IncidentOpened():
            warn(Event.INCIDENT_OPENED, partner_id=partner_id, opened_at_ms=incident.opened_at_ms)
        case circuit.IncidentClosed():
            emit(
                Event.INCIDENT_CLOSED,
                partner_id=partner_id,
                opened_at_ms=incident.opened_at_ms,
                closed_at_ms=incident.closed_at_ms,
            )
        case None:
            pass
        case _:
            assert_never(incident)
