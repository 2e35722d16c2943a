"""Deliveries in batches: each asks its partner's gate, and waits, fails or is confirmed on its own."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import structlog

from reliability import circuit, delivery
from reliability.delivery import (
    AcceptedPendingVerification,
    DeliveryOutcome,
    FailureConfirmed,
    Indeterminate,
    SuccessConfirmed,
)
from reliability.delivery_request import DeliveryRequest
from reliability.reconciliation import ReconciliationReason
from reliability.retry import RetryPolicy
from storage.gates import GateLimits
from storage.jobs import FinishedAs, JobKind, JobState, NewJob
from tasks.batch_flow import BatchRun
from tasks.delivery_flow import DeliveryFlow, DeliveryQuestion, PartnerTerms
from tasks.partner_gate import PartnerGate, PartnerLimits
from tests.support import partner as partners
from tests.support.backends import Backend
from tests.support.batches import Bench, Flaky
from tests.support.builders import delivery_job
from tests.support.clock import ManualClock
from worker.simulators.partner_log import Signature

POLICY = RetryPolicy(max_retries=2, initial_backoff_ms=100, backoff_multiplier=2, backoff_cap_ms=1_000)
CIRCUIT = circuit.CircuitPolicy(failure_threshold=3, cool_down_ms=60_000, probe_lease_ms=5_000)
NOW_MS = 1_750_000_000_000


@dataclass
class Hook:
    """Answer by message id, and confirm the others."""

    answers: Mapping[str, object] = field(default_factory=dict)
    sent: list[str] = field(default_factory=list)

    def send(self, request: DeliveryRequest) -> DeliveryOutcome:
        """Answer for one message."""
        self.sent.append(request.message_id)
        answer = self.answers.get(request.message_id, SuccessConfirmed())
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[return-value]  # some tests answer what no hook may


class ManyHook(Hook):
    """Answer for many with one call."""

    def send_many(self, requests: Sequence[DeliveryRequest]) -> Sequence[DeliveryOutcome | Exception]:
        """Answer for each; what an answer raises stands in its place."""
        return [self._one(request) for request in requests]

    def _one(self, request: DeliveryRequest) -> DeliveryOutcome | Exception:
        try:
            return self.send(request)
        except Exception as error:  # noqa: BLE001  # the contract allows it in an answer's place
            return error


class AsyncHook(Hook):
    """Answer on the loop."""

    async def send_async(self, request: DeliveryRequest) -> DeliveryOutcome:
        """Answer for one message."""
        return self.send(request)


@dataclass
class Book:
    """Know every partner but `nobody`, all with the same terms."""

    terms: PartnerTerms

    def terms_of(self, partner_id: str) -> PartnerTerms | None:
        """Return the terms."""
        return None if partner_id == "nobody" else self.terms


@dataclass
class Scene:
    """Run batches of deliveries on a back end."""

    backend: Backend
    hook: Any
    gate: GateLimits = field(default_factory=GateLimits)

    def __post_init__(self) -> None:
        self.bench = Bench(self.backend, concurrency=4)
        self.clock = ManualClock(NOW_MS)
        self._tokens = iter(range(10_000))

    def admit(self, *message_ids: str, partner_id: str = "acme") -> list[NewJob]:
        """Admit deliveries in this order."""
        jobs = [_job(partner_id, message_id, place) for place, message_id in enumerate(message_ids)]
        self.bench.storage.jobs.admit_many(jobs)
        return jobs

    def run(self, jobs: Sequence[NewJob]) -> BatchRun[DeliveryQuestion]:
        """Run a batch to its end."""
        batch = self.bench.batch_of(self.flow(), JobKind.DELIVERY, [(job.job_id, 0) for job in jobs])
        batch.run()
        return batch

    def flow(self) -> DeliveryFlow:
        """Return a flow around the hook."""
        terms = PartnerTerms(
            policy=POLICY, budget=delivery.RetryBudget(), limits=PartnerLimits(circuit=CIRCUIT, gate=self.gate)
        )
        storage = self.bench.storage
        gate = PartnerGate(
            circuits=storage.circuits,
            gates=storage.gates,
            clock=self.clock,
            new_token=lambda: f"t-{next(self._tokens)}",
        )
        return DeliveryFlow(hook=self.hook, partners=Book(terms), gate=gate, clock=self.clock, jitter=lambda _: 0)


def _job(partner_id: str, message_id: str, place: int) -> NewJob:
    request = partners.request(message_id=message_id, partner_id=partner_id, created_at=1_700_000_000 + place)
    return replace(
        delivery_job(partner_id, message_id), payload=request.canonical_json(), finalized_at=request.created_at
    )


every_way = pytest.mark.parametrize("make", [Hook, ManyHook, AsyncHook], ids=["threads", "one call", "loop"])


@every_way
def test_each_delivery_ends_on_its_own(backend: Backend, make: Callable[..., Hook]) -> None:
    """One is confirmed, one failed, one unknown, one awaits its receipt, one raised, one has no partner any more."""
    scene = Scene(
        backend,
        make(
            {
                "failed": FailureConfirmed(),
                "unknown": Indeterminate(),
                "pending": AcceptedPendingVerification(),
                "raised": RuntimeError("secret"),
            }
        ),
    )
    jobs = scene.admit("fine", "failed", "unknown", "pending", "raised") + scene.admit("m", partner_id="nobody")

    batch = scene.run(jobs)

    counts = scene.bench.storage.jobs.counts(JobKind.DELIVERY)
    assert counts.finished[FinishedAs.CONFIRMED] == 1
    assert batch.report.counts == {"confirmed": 1, "dead_lettered": 2, "retried": 2, "pending": 1}
    assert sorted(scene.hook.sent) == ["failed", "fine", "pending", "raised", "unknown"]
    assert scene.bench.row("delivery:acme:pending").state is JobState.AWAITING
    entries = [request.reason for request in scene.bench.storage.reconciliation.queued_requests()]
    assert entries.count(ReconciliationReason.INDETERMINATE) == 2


@every_way
def test_a_partners_bound_holds_in_a_batch(backend: Backend, make: Callable[..., Hook]) -> None:
    """Deliveries past the rate wait their turn with no attempt spent; those within it are sent."""
    scene = Scene(backend, make(), gate=GateLimits(max_per_second=5))
    jobs = scene.admit(*(f"m-{number:02}" for number in range(12)))

    batch = scene.run(jobs)

    sent = len(scene.hook.sent)
    assert 5 <= sent < 12
    assert batch.report.counts == {"confirmed": sent, "deferred": 12 - sent}
    assert all(wake.attempt == 0 and wake.delay_ms > 0 for wake in scene.bench.after.woken)


@every_way
def test_every_place_at_a_partner_is_given_back(backend: Backend, make: Callable[..., Hook]) -> None:
    """A bound on how many are on their way is free again after the batch, whatever the outcomes."""
    scene = Scene(backend, make({"a": RuntimeError("x"), "b": FailureConfirmed()}), gate=GateLimits(max_concurrent=2))
    scene.run(scene.admit("a", "b", "c", "d"))

    held = [scene.bench.storage.gates.enter("acme", f"probe-{n}", scene.gate) for n in range(2)]

    assert held == [None, None]


@every_way
def test_an_open_circuit_stops_the_rest_of_a_batch(backend: Backend, make: Callable[..., Hook]) -> None:
    """After the partner failed often enough, what has not begun in later slices waits, and no attempt is spent."""
    names = [f"m-{number:02}" for number in range(40)]
    scene = Scene(backend, make({name: Indeterminate() for name in names}))
    jobs = scene.admit(*names)

    batch = scene.run(jobs)

    assert batch.report.counts["retried"] == len(scene.hook.sent)
    assert batch.report.counts["deferred"] == 40 - len(scene.hook.sent) >= 24


def test_a_store_that_is_away_at_the_gate_defers_what_was_about_to_begin(backend: Backend) -> None:
    """Nothing of it was sent, no attempt is spent, and what begins later goes out."""
    scene = Scene(backend, AsyncHook())
    circuits: Any = Flaky(scene.bench.storage.circuits, "load_many", 1)
    scene.bench.storage = replace(scene.bench.storage, circuits=circuits)

    batch = scene.run(scene.admit("a", "b", "c", "d", "e", "f"))

    assert sorted(scene.hook.sent) == ["e", "f"]
    assert batch.report.counts == {"confirmed": 2, "deferred": 4}
    assert {(wake.attempt, wake.delay_ms) for wake in scene.bench.after.woken} == {(0, 5_000)}


def test_the_circuit_hears_every_delivery_of_a_batch(backend: Backend) -> None:
    """Failures that end together count one by one, and a success among them ends their row."""
    scene = Scene(backend, ManyHook({"a": Indeterminate(), "b": Indeterminate(), "d": Indeterminate()}))

    scene.run(scene.admit("a", "b", "c", "d"))

    assert scene.bench.storage.circuits.load("acme") == circuit.Closed(consecutive_failures=1)


def test_a_batch_that_opens_the_circuit_tells_so_once(backend: Backend) -> None:
    """However many fail together, there is one incident."""
    names = [f"m-{number}" for number in range(8)]
    scene = Scene(backend, ManyHook({name: Indeterminate() for name in names}))

    with structlog.testing.capture_logs() as lines:
        scene.run(scene.admit(*names))

    assert [line["event"] for line in lines].count("incident.opened") == 1
    assert isinstance(scene.bench.storage.circuits.load("acme"), circuit.Open)


def test_each_partner_of_a_batch_has_its_own_gate(backend: Backend) -> None:
    """One partner's open circuit holds back its own deliveries and nobody else's."""
    scene = Scene(backend, ManyHook())
    opened = circuit.Open(opened_at_ms=NOW_MS, probe_at_ms=NOW_MS + 60_000)
    assert scene.bench.storage.circuits.compare_and_set("down", circuit.Closed(), opened)
    jobs = [
        job
        for pair in zip(scene.admit("a", "b"), scene.admit("c", "d", partner_id="down"), strict=True)
        for job in pair
    ]

    batch = scene.run(jobs)

    assert sorted(scene.hook.sent) == ["a", "b"]
    assert batch.report.counts == {"confirmed": 2, "deferred": 2}


def test_one_delivery_of_a_batch_probes(backend: Backend) -> None:
    """A circuit whose time to probe has come lets one delivery of the batch through; the others wait."""
    scene = Scene(backend, ManyHook({"b": Indeterminate()}))
    due = circuit.Open(opened_at_ms=NOW_MS - 60_000, probe_at_ms=NOW_MS - 1)
    assert scene.bench.storage.circuits.compare_and_set("acme", circuit.Closed(), due)

    batch = scene.run(scene.admit("a", "b", "c"))

    assert scene.hook.sent == ["a"]
    assert batch.report.counts == {"confirmed": 1, "deferred": 2}
    assert scene.bench.storage.circuits.load("acme") == circuit.Closed()


def test_no_more_are_on_their_way_than_may_be(backend: Backend) -> None:
    """The loop is handed the next delivery when one has been answered."""
    scene = Scene(backend, hook := CountingHook())

    scene.run(scene.admit(*(f"m-{number}" for number in range(20))))

    assert len(hook.sent) == 20
    assert 1 < hook.most <= 4


@dataclass
class CountingHook(Hook):
    """Count how many are on their way at once."""

    under_way: int = 0
    most: int = 0

    async def send_async(self, request: DeliveryRequest) -> DeliveryOutcome:
        """Give way to the others before answering."""
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        return self.send(request)


def test_webhooks_of_a_batch_reach_the_partner_signed(backend: Backend, tmp_path: Path) -> None:
    """The hook that ships with the project sends a batch on its loop: each message once, with a valid signature."""
    with partners.running_partner(tmp_path / "partner.jsonl") as partner:
        scene = Scene(backend, partner.hook("ok"))
        scene.run(scene.admit(*(f"m-{number:02}" for number in range(40))))

        entries = partner.entries()

    assert sorted(entry.message_id for entry in entries) == [f"m-{number:02}" for number in range(40)]
    assert {entry.signature for entry in entries} == {Signature.VALID}
    assert scene.bench.storage.jobs.counts(JobKind.DELIVERY).finished[FinishedAs.CONFIRMED] == 40


def test_a_webhook_that_is_refused_before_it_is_sent_is_refused_in_a_batch_too(tmp_path: Path) -> None:
    """An expired request fails for certain on the loop as it does in a thread."""
    with partners.running_partner(tmp_path / "partner.jsonl") as partner:
        hook = partner.hook("ok")
        expired = partners.request(expires_at=1_700_000_001)
        alone = hook.send(expired)

        together = asyncio.run(hook.send_async(expired))

    assert isinstance(alone, FailureConfirmed)
    assert together == alone
