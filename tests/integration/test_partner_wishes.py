"""A partner that asks for patience, or for no more deliveries: what becomes of the others, over a real socket."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import structlog

from reliability.delivery_request import DeliveryRequest
from storage.bundle import Storage, memory_storage
from storage.jobs import JobKind, NewJob
from tasks import steps
from tasks.delivery_flow import DeliveryFlow
from tasks.hooks.webhook import WebhookDeliveryHook
from tasks.partner_gate import MAX_PATIENCE_MS, PartnerGate
from tests.support import builders, partner_file
from tests.support.clock import ManualClock
from tests.support.partner import RunningPartner, request, running_partner


@dataclass(kw_only=True)
class Scene:
    """Hold a flow around a webhook hook, on stores in memory."""

    hook: WebhookDeliveryHook
    clock: ManualClock = field(default_factory=lambda: ManualClock(1_750_000_000_000))

    def __post_init__(self) -> None:
        self.storage: Storage = memory_storage(self.clock)
        gate = PartnerGate(
            circuits=self.storage.circuits, gates=self.storage.gates, clock=self.clock, new_token=lambda: "token"
        )
        directory = self.hook.directory
        self.flow = DeliveryFlow(
            hook=self.hook, partners=directory, gate=gate, clock=self.clock, jitter=lambda max_jitter_ms: max_jitter_ms
        )

    def run(self, delivery: DeliveryRequest) -> steps.Step:
        """Run the first attempt of a delivery."""
        job = NewJob(
            job_id=delivery.job_id,
            kind=JobKind.DELIVERY,
            queue="delivery",
            payload=delivery.canonical_json(),
            finalized_at=delivery.created_at,
        )
        return self.flow.run(builders.admitted_and_claimed(self.storage.jobs, job))


@pytest.fixture
def partner(tmp_path: Path) -> Iterator[RunningPartner]:
    """Run a partner."""
    with running_partner(tmp_path / "partner.jsonl") as found:
        yield found


def waits(step: steps.Step) -> tuple[str, int]:
    """Return why a delivery waits and for how long; it has to keep its attempt."""
    assert isinstance(step, steps.Defer)
    assert step.attempt == 0
    return step.why, step.delay_ms


def test_after_410_the_others_wait(partner: RunningPartner) -> None:
    """The delivery that met 410 is a dead letter; the others are not sent, spend no attempt and are no dead letters."""
    scene = Scene(hook=partner.hook("410"))

    with structlog.testing.capture_logs() as logged:
        first, second, third = (scene.run(request(f"msg_{number}")) for number in range(3))

    assert isinstance(first, steps.DeadLettered)
    assert [waits(second), waits(third)] == [("partner stopped", 60_000), ("partner stopped", 60_020)]
    assert len(partner.entries()) == 1
    told = {"event": "partner.stopped", "partner_id": "acme", "rule": "status.410", "log_level": "warning"}
    assert logged == [told]


def test_an_enabled_partner_gets_what_waited(partner: RunningPartner) -> None:
    """Once an operator resumes the partner, its deliveries go out again."""
    scene = Scene(hook=partner.hook("410"))
    scene.run(request("msg_1"))

    scene.storage.gates.resume("acme")
    scene.run(request("msg_2"))

    assert [entry.message_id for entry in partner.entries()] == ["msg_1", "msg_2"]


def test_a_new_address_gets_what_waited(partner: RunningPartner) -> None:
    """A stop holds for the address that asked for it: a file with another one needs nothing more than to be read."""
    scene = Scene(hook=partner.hook("410"))
    scene.run(request("msg_1"))

    path = partner.log_path.parent / "partners.toml"
    path.write_text(path.read_text().replace("/p/acme/410", "/p/acme/ok"))
    scene.hook.directory.reload()

    assert isinstance(scene.run(request("msg_2")), steps.Done)


def test_429_with_retry_after_slows_the_whole_partner(partner: RunningPartner) -> None:
    """Nothing is sent to the partner for the time it asked for; the others wait and keep their attempts."""
    scene = Scene(hook=partner.hook("429:120/ok"))

    with structlog.testing.capture_logs() as logged:
        first, second = scene.run(request("msg_1")), scene.run(request("msg_2"))
    scene.clock.advance(120_000)

    assert isinstance(first, steps.RetryAfter)
    assert first.delay_ms == 120_000
    assert waits(second) == ("partner slowed", 120_000)
    assert len(partner.entries()) == 1
    assert logged == [{"event": "partner.slowed", "partner_id": "acme", "wait_ms": 120_000, "log_level": "warning"}]
    assert isinstance(scene.run(request("msg_3")), steps.RetryAfter)


@pytest.mark.parametrize("answer", ["429", "429:0", "429:garbage", "503:120"])
def test_what_slows_nobody(partner: RunningPartner, answer: str) -> None:
    """429 without a time, and another status with one, hold back no other delivery."""
    scene = Scene(hook=partner.hook(answer))

    scene.run(request("msg_1"))
    scene.run(request("msg_2"))

    assert len(partner.entries()) == 2


def test_patience_is_bounded(partner: RunningPartner) -> None:
    """A partner that asks for a year is asked again after an hour."""
    scene = Scene(hook=partner.hook("429:31536000"))
    scene.run(request("msg_1"))

    assert waits(scene.run(request("msg_2"))) == ("partner slowed", MAX_PATIENCE_MS)


def test_another_partner_is_not_touched(partner: RunningPartner) -> None:
    """A stop and a plea are the partner's own."""
    scene = Scene(
        hook=WebhookDeliveryHook(partner_file.directory(partner.log_path.parent, two(partner)), ManualClock())
    )
    scene.run(request("msg_1"))

    other = request("msg_1").model_copy(update={"partner_id": "other"})

    assert isinstance(scene.run(other), steps.Done)


def two(partner: RunningPartner) -> str:
    """Write a file with a partner that is gone and one that is well."""
    return "\n".join(
        f"""
[partners.{name}]
url = "{partner.url(step, name)}"
secrets = ["env:ACME_SECRET"]
allow_private_networks = ["127.0.0.0/8"]
"""
        for name, step in (("acme", "410"), ("other", "ok"))
    )
