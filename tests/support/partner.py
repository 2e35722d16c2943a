"""The partner simulator in a thread of the test, on a free loopback port, and a hook that delivers to it."""

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from reliability.clock import Clock, SystemClock
from reliability.delivery_request import DeliveryRequest
from tasks.hooks.webhook import WebhookDeliveryHook
from tasks.partner_secrets import Sources
from tests.support import partner_file
from worker.simulators import partner, partner_log
from worker.simulators.partner_log import PartnerLogEntry
from worker.simulators.partner_script import PartnerScript

Result = TypeVar("Result")
_LONGEST_WAIT_S = 20.0
#: The partner of tests: its secret is known to both sides.
SCRIPT = PartnerScript(secrets={"acme": ("env:ACME_SECRET",)})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningPartner:
    """Hold where the partner listens and what it writes."""

    port: int
    log_path: Path

    def url(self, steps: str = "ok", partner_id: str = "acme") -> str:
        """Return where a partner takes deliveries that meet these steps."""
        return f"http://127.0.0.1:{self.port}/p/{partner_id}/{steps}"

    def entries(self) -> list[PartnerLogEntry]:
        """Read what it logged so far."""
        return list(partner_log.read(self.log_path))

    def hook(self, steps: str, terms: str = "", *, deadline_s: float = 2.0) -> WebhookDeliveryHook:
        """Make a hook whose partner `acme` is this one, with further terms of its file."""
        return hook_for(self.log_path.parent, self.url(steps), terms, deadline_s=deadline_s)


def hook_for(folder: Path, url: str, terms: str = "", *, deadline_s: float = 2.0) -> WebhookDeliveryHook:
    """Make a hook whose partner `acme` is at this URL; loopback is allowed."""
    text = f"""
[partners.acme]
url = "{url}"
secrets = ["env:ACME_SECRET"]
deadline_s = {deadline_s}
allow_private_networks = ["127.0.0.0/8"]
{terms}
"""
    return WebhookDeliveryHook(partner_file.directory(folder, text), SystemClock())


def public_hook(folder: Path, url: str) -> WebhookDeliveryHook:
    """Make a hook whose partner `acme` may only be at a public address, without TLS."""
    text = f"""
[partners.acme]
url = "{url}"
secrets = ["env:ACME_SECRET"]
deadline_s = 2
allow_plain_http = true
"""
    return WebhookDeliveryHook(partner_file.directory(folder, text), SystemClock())


def request(message_id: str = "msg_1", body: bytes = b'{"n":1}', **facts: object) -> DeliveryRequest:
    """Make a delivery for the partner `acme`."""
    return DeliveryRequest.model_validate(
        {
            "message_id": message_id,
            "partner_id": "acme",
            "content_type": "application/json",
            "body": body,
            "created_at": 1_700_000_000,
            **facts,
        }
    )


@contextlib.contextmanager
def running_partner(
    log_path: Path, script: PartnerScript = SCRIPT, clock: Clock | None = None
) -> Iterator[RunningPartner]:
    """Run a partner until the block ends; without a script the path says what it does."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="partner", daemon=True)
    thread.start()
    simulator = partner.PartnerSimulator(script, log_path, Sources(environ=partner_file.ENVIRON), clock)
    runner, port = _run(loop, partner.start(simulator, "127.0.0.1", 0))
    try:
        yield RunningPartner(port=port, log_path=log_path)
    finally:
        _run(loop, runner.cleanup())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_LONGEST_WAIT_S)
        loop.close()


def _run(loop: asyncio.AbstractEventLoop, work: Coroutine[object, object, Result]) -> Result:
    return asyncio.run_coroutine_threadsafe(work, loop).result(_LONGEST_WAIT_S)
