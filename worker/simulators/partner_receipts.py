"""
The receipts a simulated partner sends later, signed as a real one signs them.

A receipt is `{partner_id, headers, body}`: what `chio.deliver.confirm` takes as `signed`. It is posted to a URL, where
the headers are the request's, or appended as one line to a file.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import aiohttp
import standardwebhooks

from reliability.canonical import canonical_json
from reliability.receipt import RECEIPT_SCHEMA, Verdict
from worker.simulators.partner_script import ReceiptTarget

_POST_DEADLINE_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Hold one receipt as it is sent."""

    partner_id: str
    headers: Mapping[str, str]
    body: bytes

    def to_json(self) -> str:
        """Write the receipt as one line, without its line feed."""
        signed = {"partner_id": self.partner_id, "headers": dict(self.headers), "body": self.body.decode("utf-8")}
        return json.dumps(signed, separators=(",", ":"))


@dataclass(slots=True, kw_only=True)
class ReceiptSender:
    """Send receipts some time after their messages; what was not sent when the simulator ends never is."""

    target: ReceiptTarget
    _running: set["asyncio.Task[None]"] = field(default_factory=set)

    def send_later(self, receipt: Receipt, after_s: float) -> None:
        """Send the receipt after so many seconds."""
        task = asyncio.get_running_loop().create_task(self._send(receipt, after_s))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def close(self) -> None:
        """Drop what was not sent yet."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _send(self, receipt: Receipt, after_s: float) -> None:
        await asyncio.sleep(after_s)
        if self.target.file is not None:
            _append(self.target.file, receipt)
        if self.target.url is not None:
            await _post(self.target.url, receipt)


def signed_receipt(verdict: Verdict, partner_id: str, message_id: str, secret: str, now: datetime) -> Receipt:
    """Make the receipt of a message; an empty secret leaves it unsigned."""
    facts = {"schema": RECEIPT_SCHEMA, "partner_id": partner_id, "message_id": message_id, "verdict": verdict.value}
    body = canonical_json(facts)
    receipt_id = f"receipt-{message_id}"
    headers = {"webhook-id": receipt_id, "webhook-timestamp": str(int(now.timestamp()))}
    if secret:
        headers["webhook-signature"] = standardwebhooks.Webhook(secret).sign(receipt_id, now, body.decode("utf-8"))
    return Receipt(partner_id=partner_id, headers=headers, body=body)


def _append(path: Path, receipt: Receipt) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as lines:
        lines.write(f"{receipt.to_json()}\n")


async def _post(url: str, receipt: Receipt) -> None:
    timeout = aiohttp.ClientTimeout(total=_POST_DEADLINE_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(url, data=receipt.body, headers={"Content-Type": "application/json", **receipt.headers}),
        ):
            pass
    except (aiohttp.ClientError, TimeoutError):
        return  # a partner does not mend its sender's intake; the receipt is lost, as it may be in the real world
