"""The HTTP settlement hook against the rail simulator: each situation of the table over a real socket."""

import hashlib
import logging
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from reliability.outcomes import Accepted, Pending, Permanent, Retryable, SettlementResult, Skipped
from reliability.settlement import SettlementObservation
from tasks.hooks import http_loop
from tasks.hooks.address_guard import AddressGuard
from tasks.hooks.http_client import HttpClient, HttpClientOptions
from tasks.hooks.http_settlement import HttpSettlementHook
from tests.support.observations import observation
from tests.support.rail import RunningRail, running_rail, scripted
from tests.support.raw_server import answer, answering, raw_server

TOKEN = "hunter2-token"


@pytest.fixture(autouse=True)
def _fresh_loop() -> Iterator[None]:
    yield
    http_loop.shut_down()


@pytest.fixture
def rail(tmp_path: Path) -> Iterator[RunningRail]:
    """Run a rail that follows the tool names."""
    with running_rail(tmp_path / "effects.jsonl") as running:
        yield running


def hook_for(url: str, total_deadline_s: float = 15.0) -> HttpSettlementHook:
    """Return a hook with an ample deadline."""
    return HttpSettlementHook(url=url, total_deadline_s=total_deadline_s)


def observed(rail: RunningRail, tool_name: str, total_deadline_s: float = 15.0) -> SettlementResult:
    """Let the hook observe a receipt of this tool once."""
    return hook_for(rail.url, total_deadline_s).observe(observation(tool_name=tool_name))


def summary(result: SettlementResult) -> tuple[str, str | None]:
    """Return the result's class and, for a failure, its code."""
    code = result.reason.code.value if isinstance(result, Retryable | Permanent) else None
    return type(result).__name__, code


@pytest.mark.parametrize(
    "tool_name, expected",
    [
        ("rail.ok", ("Accepted", None)),
        ("rail.201", ("Accepted", None)),
        ("rail.204", ("Accepted", None)),
        ("rail.202", ("Pending", None)),
        ("rail.409", ("Accepted", None)),
        ("rail.302", ("Permanent", "invalid_dispatch")),
        ("rail.400", ("Permanent", "invalid_input")),
        ("rail.401", ("Permanent", "invalid_dispatch")),
        ("rail.403", ("Permanent", "invalid_dispatch")),
        ("rail.404", ("Permanent", "invalid_binding")),
        ("rail.405", ("Permanent", "unsupported")),
        ("rail.408", ("Retryable", "rpc")),
        ("rail.410", ("Permanent", "invalid_binding")),
        ("rail.413", ("Permanent", "invalid_input")),
        ("rail.413-5", ("Retryable", "rpc")),
        ("rail.415", ("Permanent", "unsupported")),
        ("rail.421", ("Retryable", "rpc")),
        ("rail.422", ("Permanent", "invalid_input")),
        ("rail.425", ("Retryable", "rpc")),
        ("rail.429", ("Retryable", "rpc")),
        ("rail.500", ("Retryable", "rpc")),
        ("rail.502", ("Retryable", "rpc")),
        ("rail.503", ("Retryable", "rpc")),
        ("rail.504", ("Retryable", "rpc")),
        ("rail.reset-after-body", ("Retryable", "rpc")),
        ("rail.reset-before-body", ("Retryable", "rpc")),
        ("rail.huge", ("Accepted", None)),
        ("rail.gzip-bomb", ("Accepted", None)),
        ("rail.outcome-skipped", ("Skipped", None)),
        ("rail.outcome-retryable", ("Retryable", "backend")),
        ("rail.outcome-permanent", ("Permanent", "verification")),
    ],
)
def test_each_answer_has_its_decision(rail: RunningRail, tool_name: str, expected: tuple[str, str | None]) -> None:
    """What the rail answers becomes the outcome of its row in the situations table."""
    assert summary(observed(rail, tool_name)) == expected


@pytest.mark.parametrize(
    "tool_name, expected",
    [
        ("rail.hang", ("Retryable", "rpc")),
        ("rail.slow-20", ("Retryable", "rpc")),
        ("rail.drip-headers", ("Retryable", "rpc")),
        ("rail.drip-body", ("Accepted", None)),
    ],
)
def test_slowness_ends_at_the_one_deadline(rail: RunningRail, tool_name: str, expected: tuple[str, str | None]) -> None:
    """Without headers a slow answer is repeated; with them the status decides."""
    assert summary(observed(rail, tool_name, total_deadline_s=1.0)) == expected


def test_a_refused_connection_is_repeated() -> None:
    """A rail that is not there is asked again later."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        result = hook_for(f"http://127.0.0.1:{unused.getsockname()[1]}/").observe(observation())

    assert summary(result) == ("Retryable", "rpc")


def test_a_blocked_address_is_permanent(rail: RunningRail) -> None:
    """Where private addresses are blocked, a rail inside is never asked and the receipt is dead at once."""
    client = HttpClient(HttpClientOptions(guard=AddressGuard.public_only()))
    hook = HttpSettlementHook(url=rail.url, total_deadline_s=15.0, client=client)

    result = hook.observe(observation())

    assert summary(result) == ("Permanent", "invalid_dispatch")
    assert rail.entries() == []


@pytest.mark.parametrize("tool_name", ["rail.429-7", "rail.503-7", "rail.413-7"])
def test_a_wait_that_the_rail_asks_for_is_passed_on(rail: RunningRail, tool_name: str) -> None:
    """Retry-After reaches the flow in milliseconds."""
    result = observed(rail, tool_name)

    assert isinstance(result, Retryable)
    assert result.retry_after_ms == 7_000


def test_every_attempt_sends_the_same_bytes_under_the_same_key(tmp_path: Path) -> None:
    """Across attempts key and digest stay the same, the effect happens once, and its transcript is the answer."""
    receipt = observation(tool_name="t")
    with running_rail(tmp_path / "log.jsonl", scripted({"t": ["fail:2", "reset-after-body"]})) as rail:
        hook = hook_for(rail.url)
        results = [hook.observe(receipt) for _ in range(4)]
        entries = rail.entries()

    assert [type(result) for result in results] == [Retryable, Retryable, Retryable, Accepted]
    assert {entry.key for entry in entries} == {receipt.receipt_id}
    assert {entry.body_sha256 for entry in entries} == {hashlib.sha256(receipt.canonical_json()).hexdigest()}
    assert [entry.effect for entry in entries] == [False, False, True, False]
    assert results[-1] == Accepted(entries[2].transcript_id)


def test_a_rail_that_says_exists_is_accepted_with_its_transcript(tmp_path: Path) -> None:
    """A repeat that gets 409 with the transcript is our own settlement."""
    with running_rail(tmp_path / "log.jsonl", scripted({}, repeat="conflict")) as rail:
        first, second = (hook_for(rail.url).observe(observation()) for _ in range(2))

    assert isinstance(first, Accepted)
    assert second == first


def test_a_conflict_without_proof_is_taken_at_its_word_where_configured() -> None:
    """A bare 409 is repeated by default and accepted for a rail whose every 409 means settled."""
    with raw_server(answering(answer(status="409 Conflict"))) as server:
        cautious = hook_for(server.url).observe(observation())
        trusting = HttpSettlementHook(url=server.url, total_deadline_s=15.0, conflict_is_finished=True).observe(
            observation()
        )

    assert isinstance(cautious, Retryable)
    assert isinstance(trusting, Accepted)


def test_the_request_is_what_the_contract_says() -> None:
    """The rail gets the canonical bytes, the key, the content type, and the token if there is one."""
    receipt = observation()
    with raw_server(answering(answer())) as server:
        HttpSettlementHook(url=f"{server.url}settle?a=b", total_deadline_s=15.0, token=TOKEN).observe(receipt)

    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /settle?a=b HTTP/1.1\r\n")
    assert body == receipt.canonical_json()
    assert {
        b"Idempotency-Key: rcpt-1",
        b"Content-Type: application/json",
        f"Authorization: Bearer {TOKEN}".encode(),
    } <= set(head.split(b"\r\n"))


@pytest.mark.parametrize(
    "receipt",
    [
        observation(receipt_id="two\nlines"),
        observation(receipt_id="grün"),
        observation(amount={"units": 2**60, "currency": "EUR"}),
    ],
)
def test_what_cannot_be_sent_is_permanent(rail: RunningRail, receipt: SettlementObservation) -> None:
    """An id that no header can carry, or a number without canonical form, never leaves and is not repeated."""
    result = hook_for(rail.url).observe(receipt)

    assert summary(result) == ("Permanent", "invalid_observation")
    assert rail.entries() == []


def test_pending_names_what_the_rail_said(rail: RunningRail) -> None:
    """A 202 is pending, never settled."""
    result = observed(rail, "rail.pending")

    assert isinstance(result, Pending)
    assert result.transcript_id.startswith("sha256:")


def test_nothing_that_is_secret_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Neither the token, the observation nor what the rail said reaches a log or the result's repr."""
    caplog.set_level(logging.DEBUG)
    response = answer(status="422 No", body=b'{"error": "account 4711 of Alice"}')
    with raw_server(answering(response)) as server:
        hook = HttpSettlementHook(url=server.url, total_deadline_s=15.0, token=TOKEN)
        result = hook.observe(observation(tenant_id="tenant-of-alice"))

    shown = caplog.text + repr(result) + repr(hook)
    assert isinstance(result, Permanent)
    assert not any(secret in shown for secret in (TOKEN, "4711", "Alice", "tenant-of-alice"))


def test_a_skip_is_passed_on_for_the_flow_to_judge(rail: RunningRail) -> None:
    """The hook hands on what the rail said; holding it to the contract is the flow's part."""
    assert isinstance(observed(rail, "rail.outcome-skipped"), Skipped)
