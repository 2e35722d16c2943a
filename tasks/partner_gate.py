"""
What is asked before a delivery leaves and told after it: the partner's circuit, rate and concurrency, and its wishes.

Waiting here spends no attempt. The state machine is `reliability.circuit`; the store only compares and sets, so of
all workers one probes and each incident is told once. A partner that asks for patience, or for no more deliveries, is
heeded by the whole fleet.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final, assert_never

from reliability import circuit
from reliability.clock import Clock
from reliability.delivery import DeliveryOutcome, FailureConfirmed, Indeterminate
from reliability.errors import StorageUnavailableError
from reliability.events import Event
from storage.gates import GateLimits, GateWait
from storage.traffic_protocols import CircuitStorage, GateStorage
from tasks.emit import emit, warn

#: While a probe is out the others ask again after this, in ms: it has ended by then, unless its worker died.
PROBE_WAIT_MS: Final = 1_000
#: A partner that asked for more patience than this is asked again after it, in ms: one hour.
MAX_PATIENCE_MS: Final = 3_600_000


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


@dataclass(frozen=True, slots=True)
class Ended:
    """Hold what became of a delivery that was let through."""

    partner_id: str
    limits: PartnerLimits
    entered: Entered
    outcome: DeliveryOutcome

    @property
    def report(self) -> circuit.Report:
        """Return what it tells the circuit."""
        probe_token = self.entered.token if self.entered.is_probe else None
        return circuit.Report(signal=circuit.signal_of(self.outcome), probe_token=probe_token)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartnerGate:
    """Ask the fleet's shared state whether a partner may be called."""

    circuits: CircuitStorage
    gates: GateStorage
    clock: Clock
    new_token: Callable[[], str]
    #: A probe or an entry whose worker died is given up after this at the earliest: no hook runs as long, in ms.
    min_lease_ms: int = 0

    def enter(self, partner_id: str, limits: PartnerLimits) -> Entered | HeldBack:
        """
        Let one delivery through, or say when it comes again.

        Raises:
            StorageUnavailableError: if the state cannot be read; nothing is sent then.

        """
        return self.enter_many([(partner_id, limits)])[0]

    def enter_many(self, wanted: Sequence[tuple[str, PartnerLimits]]) -> list[Entered | HeldBack]:
        """
        Let deliveries through or hold them back, in order, with two exchanges for all that nothing holds back.

        Raises:
            StorageUnavailableError: as `enter`; none of them is sent.

        """
        token = self.new_token()
        entries = [
            (partner_id, f"{token}-{place}", self._leased_gate(limits.gate))
            for place, (partner_id, limits) in enumerate(wanted)
        ]
        # The gate comes first: a probe that was granted and then held back would block the circuit for a while.
        waits = self.gates.enter_many(entries)
        inside = {partner_id for (partner_id, _, _), held in zip(entries, waits, strict=True) if held is None}
        closed = self._closed(sorted(inside))
        return [
            self._entered(partner_id, limits, token, held, is_closed=partner_id in closed)
            for (partner_id, limits), (_, token, _), held in zip(wanted, entries, waits, strict=True)
        ]

    def _closed(self, partner_ids: Sequence[str]) -> set[str]:
        states = self.circuits.load_many(partner_ids)
        known = zip(partner_ids, states, strict=True)
        return {partner_id for partner_id, state in known if isinstance(state, circuit.Closed)}

    def _entered(
        self, partner_id: str, limits: PartnerLimits, token: str, held: GateWait | None, *, is_closed: bool
    ) -> Entered | HeldBack:
        if held is not None:
            return self._held_back(partner_id, limits, held.wait_ms, held.why)
        if is_closed:
            return Entered(token=token, is_probe=False)
        permission = self._ask(partner_id, limits.circuit, token)
        match permission:
            case circuit.Send():
                return Entered(token=token, is_probe=False)
            case circuit.Probe():
                return Entered(token=token, is_probe=True)
            case circuit.Wait(remaining_ms=remaining_ms):
                self._leave_gate(partner_id, limits, token)
                return self._held_back(partner_id, limits, remaining_ms, "circuit open")
            case _:
                assert_never(permission)

    def leave(self, partner_id: str, limits: PartnerLimits, entered: Entered, outcome: DeliveryOutcome) -> None:
        """Tell what became of the delivery. An unreachable store is left alone: leases give up what was not told."""
        self.leave_many([Ended(partner_id, limits, entered, outcome)])

    def leave_many(self, ended: Sequence[Ended]) -> None:
        """Tell what became of deliveries, each partner's in order and its circuit with one exchange or two."""
        for partner_id, group in groupby(sorted(ended, key=_partner), key=_partner):
            with suppress(StorageUnavailableError):
                self._leave(partner_id, list(group))

    def _leave(self, partner_id: str, ended: Sequence[Ended]) -> None:
        limits = ended[-1].limits
        self._leave_gate(partner_id, limits, *(one.entered.token for one in ended))
        for one in ended:
            self._heed(partner_id, one.limits, one.outcome)
        self._tell(partner_id, limits.circuit, [one.report for one in ended])

    def _leave_gate(self, partner_id: str, limits: PartnerLimits, *tokens: str) -> None:
        # Only a bound on how many are on their way keeps entries; without one a round trip is saved.
        if limits.gate.max_concurrent is not None:
            self.gates.leave(partner_id, *tokens)

    def _heed(self, partner_id: str, limits: PartnerLimits, outcome: DeliveryOutcome) -> None:
        match outcome:
            case FailureConfirmed(disables_endpoint=True, rule=rule):
                if self.gates.stop(partner_id, limits.gate.endpoint):
                    warn(Event.PARTNER_STOPPED, partner_id=partner_id, rule=rule)
            case Indeterminate(counts_for_breaker=False, retry_after_ms=int(asked_ms)) if asked_ms > 0:
                wait_ms = min(asked_ms, MAX_PATIENCE_MS)
                if self.gates.slow(partner_id, wait_ms):
                    warn(Event.PARTNER_SLOWED, partner_id=partner_id, wait_ms=wait_ms)
            case _:
                pass

    def _held_back(self, partner_id: str, limits: PartnerLimits, wait_ms: int, why: str) -> HeldBack:
        return HeldBack(delay_ms=self.gates.turn_ms(partner_id, wait_ms, limits.gate.return_interval_ms), why=why)

    def _ask(self, partner_id: str, policy: circuit.CircuitPolicy, token: str) -> circuit.Permission:
        while True:
            state, now_ms = self.circuits.load(partner_id), self.clock.now_ms()
            permission = circuit.may_send(state, now_ms)
            if isinstance(permission, circuit.Wait) and isinstance(state, circuit.HalfOpen):
                return circuit.Wait(min(permission.remaining_ms, PROBE_WAIT_MS))
            if not isinstance(permission, circuit.Probe) or isinstance(state, circuit.Closed):
                return permission
            probing = circuit.begin_probe(self._leased(policy), state, token, now_ms)
            if self.circuits.compare_and_set(partner_id, state, probing):
                return permission

    def _leased(self, policy: circuit.CircuitPolicy) -> circuit.CircuitPolicy:
        return replace(policy, probe_lease_ms=max(policy.probe_lease_ms, self.min_lease_ms))

    def _leased_gate(self, limits: GateLimits) -> GateLimits:
        if limits.entry_lease_ms >= self.min_lease_ms:
            return limits
        return replace(limits, entry_lease_ms=self.min_lease_ms)

    def _tell(self, partner_id: str, policy: circuit.CircuitPolicy, reports: Sequence[circuit.Report]) -> None:
        while True:
            before = state = self.circuits.load(partner_id)
            incidents = []
            for report in reports:
                change = circuit.after(policy, state, report, self.clock.now_ms())
                state = change.state
                incidents.append(change.incident)
            if state == before or self.circuits.compare_and_set(partner_id, before, state):
                break
        for incident in incidents:
            announce(partner_id, incident)


def _partner(ended: Ended) -> str:
    return ended.partner_id


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
