"""A rail that answered 202 is asked what became of the receipt: over a real socket, and through the flow."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from reliability.outcomes import Accepted, Pending, Permanent, Retryable, SettlementResult
from reliability.retry import RetryPolicy
from storage.jobs import ClaimCause, FinishedAs
from tasks import steps
from tasks.hooks import VerifyingSettlementHook, http_loop
from tasks.hooks.http_settlement import HttpSettlementHook
from tasks.settlement_flow import SettlementFlow
from tests.support.claims import observation, settlement_claim
from tests.support.clock import ManualClock
from tests.support.rail import RunningRail, running_rail
from tests.support.raw_server import answer, answering, raw_server


@pytest.fixture(autouse=True)
def _fresh_loop() -> Iterator[None]:
    yield
    http_loop.shut_down()


@pytest.fixture
def rail(tmp_path: Path) -> Iterator[RunningRail]:
    """Run a rail that follows the tool names."""
    with running_rail(tmp_path / "effects.jsonl") as running:
        yield running


def hook_for(rail: RunningRail, *, asks: bool = True) -> HttpSettlementHook:
    """Return a hook that may ask for the status."""
    status_url = f"http://127.0.0.1:{rail.port}/status/{{receipt_id}}" if asks else None
    return HttpSettlementHook(url=rail.url, total_deadline_s=15.0, status_url=status_url)


def verified(rail: RunningRail, tool_name: str) -> SettlementResult:
    """Post a receipt of this tool, then ask what became of it."""
    hook, found = hook_for(rail), observation(tool_name=tool_name)
    hook.observe(found)
    return hook.verify(found)


def told(status: int, body: bytes = b"") -> SettlementResult:
    """Return what a hook makes of this answer to its question."""
    with raw_server(answering(answer(status=f"{status} X", body=body))) as server:
        hook = HttpSettlementHook(
            url=server.url, total_deadline_s=15.0, status_url=f"{server.url.rstrip('/')}/{{receipt_id}}"
        )
        return hook.verify(observation())


def test_a_settled_one_is_confirmed_without_settling_again(rail: RunningRail) -> None:
    """The status has the transcript; the rail got one POST, and had one effect."""
    result = verified(rail, "rail.pending-settles")

    assert isinstance(result, Accepted)
    assert result.transcript_id.startswith("tr-")
    assert [(entry.attempt, entry.effect) for entry in rail.entries()] == [(1, True)]


def test_one_that_is_still_pending_stays_so(rail: RunningRail) -> None:
    """The rail has it and has not settled it."""
    assert isinstance(verified(rail, "rail.pending"), Pending)


def test_one_the_rail_does_not_know_is_tried_again(rail: RunningRail) -> None:
    """404 means that nothing is known, never that the settlement failed."""
    assert isinstance(verified(rail, "rail.422"), Retryable)
    assert isinstance(hook_for(rail).verify(observation("never-sent")), Retryable)


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 405, 410, 422, 429, 500, 503])
def test_an_answer_that_says_nothing_of_the_settlement_is_no_failure(status: int) -> None:
    """Whatever is wrong with asking, the receipt is observed again under its key."""
    assert isinstance(told(status), Retryable)


def test_a_failure_is_told_with_an_outcome_document() -> None:
    """That is the one way to say for certain that it failed."""
    reason = {"code": "verification", "detail_sha256": [0] * 32}
    document = {"schema": "chio.settle.outcome.v2", "kind": "permanent", "reason": reason}

    assert isinstance(told(200, json.dumps(document).encode()), Permanent)


def test_an_unreachable_status_is_tried_again() -> None:
    """A refused connection says nothing either."""
    hook = HttpSettlementHook(
        url="http://127.0.0.1:1/", total_deadline_s=5.0, status_url="http://127.0.0.1:1/{receipt_id}"
    )

    assert isinstance(hook.verify(observation()), Retryable)


def test_the_token_goes_with_the_question() -> None:
    """The status is asked under the same authorisation, with GET and without a body."""
    with raw_server(answering(answer())) as server:
        template = f"{server.url.rstrip('/')}/{{receipt_id}}"
        HttpSettlementHook(url=server.url, total_deadline_s=15.0, status_url=template, token="t0ken").verify(
            observation()
        )
        asked = server.requests[0]

    assert asked.startswith(b"GET /rcpt-1 HTTP/1.1\r\n")
    assert b"authorization: bearer t0ken" in asked.lower()
    assert b"content-length" not in asked.lower()


def test_status_of_the_simulated_rail(rail: RunningRail) -> None:
    """It answers 404 for a key it never took."""
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"http://127.0.0.1:{rail.port}/status/unknown", timeout=10)


@pytest.mark.parametrize(
    "asks,tool,expected",
    [
        (True, "rail.pending-settles", steps.Done(finished_as=FinishedAs.SETTLED)),
        (True, "rail.pending", None),
        (False, "rail.pending-settles", None),
    ],
)
def test_an_escalated_settlement_is_verified_if_that_is_configured(
    rail: RunningRail, asks: bool, tool: str, expected: steps.Step | None
) -> None:
    """A settled one is done; one that is pending, or cannot be asked for, is observed again as the next attempt."""
    hook, payload = hook_for(rail, asks=asks), observation(tool_name=tool).canonical_json()
    flow = SettlementFlow(hook=hook, policy=RetryPolicy(), clock=ManualClock(), jitter_ms=lambda: 0)

    first = flow.run(settlement_claim(payload=payload))
    second = flow.run(settlement_claim(payload=payload, cause=ClaimCause.ESCALATED))

    assert isinstance(hook, VerifyingSettlementHook)
    assert isinstance(first, steps.AwaitReceipt)
    if expected is not None:
        assert second == expected
    else:
        assert isinstance(second, steps.RetryAfter)
        assert second.attempt == 1
    assert len(rail.entries()) == 1
