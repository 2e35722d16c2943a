"""What a rail's answer means: one row per rail row of the situations table, and the bodies that change it."""

import hashlib
import json
from datetime import UTC, datetime

import pytest

from reliability.failures import SettlementFailureCode as Code
from reliability.failures import SettlementFailureReason, SettlementSkipReason, may_retry
from reliability.outcomes import Accepted, Pending, Permanent, Retryable, SettlementResult, Skipped
from reliability.settlement import SettlementOutcome
from tasks.hooks.http_exchange import ErrorKind, HttpExchange, Phase
from tasks.hooks.rail_answer import PERMANENT_CODES, result_of

NOW = datetime(2026, 10, 21, 7, 26, tzinfo=UTC)


def answered(
    status: int, body: bytes = b"", *, retry_after: str | None = None, truncated: bool = False
) -> HttpExchange:
    """Return a complete exchange."""
    return HttpExchange(
        phase=Phase.BODY,
        error=None,
        status=status,
        headers={} if retry_after is None else {"retry-after": retry_after},
        body=body,
        body_sha256=hashlib.sha256(body).hexdigest(),
        body_truncated=truncated,
        elapsed_ms=1,
    )


def broken(phase: Phase, error: ErrorKind, status: int | None = None, body: bytes = b"") -> HttpExchange:
    """Return an exchange that ended before its time."""
    digest = hashlib.sha256(body).hexdigest()
    return HttpExchange(phase=phase, error=error, status=status, body=body, body_sha256=digest, elapsed_ms=1)


def summary(result: SettlementResult) -> tuple[str, str | None]:
    """Return the result's class and, for a failure, its code."""
    code = result.reason.code.value if isinstance(result, Retryable | Permanent) else None
    return type(result).__name__, code


@pytest.mark.parametrize(
    "status, expected",
    [
        (200, ("Accepted", None)),
        (201, ("Accepted", None)),
        (202, ("Pending", None)),
        (204, ("Accepted", None)),
        (299, ("Accepted", None)),
        (301, ("Permanent", "invalid_dispatch")),
        (302, ("Permanent", "invalid_dispatch")),
        (304, ("Permanent", "invalid_dispatch")),
        (307, ("Permanent", "invalid_dispatch")),
        (308, ("Permanent", "invalid_dispatch")),
        (400, ("Permanent", "invalid_input")),
        (401, ("Permanent", "invalid_dispatch")),
        (402, ("Permanent", "invalid_input")),
        (403, ("Permanent", "invalid_dispatch")),
        (404, ("Permanent", "invalid_binding")),
        (405, ("Permanent", "unsupported")),
        (406, ("Permanent", "unsupported")),
        (408, ("Retryable", "rpc")),
        (409, ("Retryable", "rpc")),
        (410, ("Permanent", "invalid_binding")),
        (413, ("Permanent", "invalid_input")),
        (415, ("Permanent", "unsupported")),
        (418, ("Permanent", "invalid_input")),
        (421, ("Retryable", "rpc")),
        (422, ("Permanent", "invalid_input")),
        (425, ("Retryable", "rpc")),
        (429, ("Retryable", "rpc")),
        (500, ("Retryable", "rpc")),
        (501, ("Retryable", "rpc")),
        (502, ("Retryable", "rpc")),
        (503, ("Retryable", "rpc")),
        (504, ("Retryable", "rpc")),
        (101, ("Retryable", "rpc")),
        (999, ("Retryable", "rpc")),
    ],
)
def test_a_status_decides(status: int, expected: tuple[str, str | None]) -> None:
    """Each status has the decision of its row."""
    assert summary(result_of(answered(status), NOW)) == expected


@pytest.mark.parametrize(
    "exchange, expected",
    [
        (broken(Phase.POLICY, ErrorKind.BLOCKED), ("Permanent", "invalid_dispatch")),
        (broken(Phase.DNS, ErrorKind.NAME_NOT_RESOLVED), ("Retryable", "rpc")),
        (broken(Phase.DNS, ErrorKind.TIMEOUT), ("Retryable", "rpc")),
        (broken(Phase.CONNECT, ErrorKind.REFUSED), ("Retryable", "rpc")),
        (broken(Phase.CONNECT, ErrorKind.UNREACHABLE), ("Retryable", "rpc")),
        (broken(Phase.TLS, ErrorKind.CERTIFICATE), ("Retryable", "rpc")),
        (broken(Phase.SENDING, ErrorKind.RESET), ("Retryable", "rpc")),
        (broken(Phase.SENT, ErrorKind.RESET), ("Retryable", "rpc")),
        (broken(Phase.SENT, ErrorKind.TIMEOUT), ("Retryable", "rpc")),
        (broken(Phase.SENT, ErrorKind.PROTOCOL), ("Retryable", "rpc")),
        (broken(Phase.STATUS, ErrorKind.TIMEOUT, 200), ("Accepted", None)),
        (broken(Phase.STATUS, ErrorKind.RESET, 422), ("Permanent", "invalid_input")),
        (broken(Phase.STATUS, ErrorKind.RESET, 503), ("Retryable", "rpc")),
    ],
)
def test_an_exchange_that_broke_decides_by_its_status_or_is_repeated(
    exchange: HttpExchange, expected: tuple[str, str | None]
) -> None:
    """A status counts even if its body never came; without one the call is repeated, unless policy forbids it."""
    assert summary(result_of(exchange, NOW)) == expected


@pytest.mark.parametrize("code", list(PERMANENT_CODES.values()))
def test_a_permanent_answer_has_a_code_that_may_not_retry(code: Code) -> None:
    """No code of the table would be retried, whatever asked for it."""
    assert not may_retry(code)


@pytest.mark.parametrize("status", [408, 409, 413, 429, 500, 503])
@pytest.mark.parametrize(
    "value, wait_ms",
    [
        ("120", 120_000),
        ("Wed, 21 Oct 2026 07:28:00 GMT", 120_000),
        ("Wednesday, 21-Oct-26 07:28:00 GMT", 120_000),
        ("Wed Oct 21 07:28:00 2026", 120_000),
        ("Wed, 21 Oct 2026 07:20:00 GMT", 0),
    ],
)
def test_a_retry_after_is_passed_on(status: int, value: str, wait_ms: int) -> None:
    """Retry-After in each of its forms becomes the wait that was asked for; a 413 with one may be repeated."""
    result = result_of(answered(status, retry_after=value), NOW)

    assert isinstance(result, Retryable)
    assert result.retry_after_ms == wait_ms


def test_a_garbled_retry_after_is_ignored() -> None:
    """A header that is no time asks for nothing, and makes no 413 worth repeating."""
    busy = result_of(answered(503, retry_after="soon"), NOW)
    too_large = result_of(answered(413, retry_after="soon"), NOW)

    assert isinstance(busy, Retryable)
    assert busy.retry_after_ms is None
    assert summary(too_large) == ("Permanent", "invalid_input")


@pytest.mark.parametrize(
    "body, transcript_id",
    [
        (b'{"transcript_id": "tr-1"}', "tr-1"),
        (b' {"transcript_id": "tr-1", "more": [1]}', "tr-1"),
        (b"", None),
        (b"OK", None),
        (b"[1]", None),
        (b"{", None),
        (b'{"a": 1, "a": 2}', None),
        (b'{"transcript_id": ""}', None),
        (b'{"transcript_id": 5}', None),
        (b'{"transcript_id": "two\\nlines"}', None),
        (b'{"transcript_id": "\\u00fc"}', None),
        (json.dumps({"transcript_id": "x" * 201}).encode(), None),
        (b'{"error": "no"}', None),
        (b"\xff\xfe", None),
    ],
)
@pytest.mark.parametrize("status", [200, 202])
def test_a_transcript_id_is_the_rails_or_a_digest(status: int, body: bytes, transcript_id: str | None) -> None:
    """A usable transcript id is taken from the body; otherwise the digest of the body stands for it."""
    expected = transcript_id or f"sha256:{hashlib.sha256(body).hexdigest()}"

    result = result_of(answered(status, body), NOW)

    assert result == (Accepted(expected) if status == 200 else Pending(expected))


def test_a_truncated_body_is_not_read_as_json() -> None:
    """What is not all there is not interpreted: the status decides and the digest names it."""
    body = b'{"transcript_id": "tr-1"}'

    result = result_of(answered(200, body, truncated=True), NOW)

    assert result == Accepted(f"sha256:{hashlib.sha256(body).hexdigest()}")


@pytest.mark.parametrize(
    "body, transcript_id",
    [
        (b'{"transcript_id": "tr-1"}', "tr-1"),
        (b'{"state": "finished", "transcript_id": "tr-1"}', "tr-1"),
        (b'{"state": "exists"}', None),
        (b'{"state": "finished"}', None),
        (b'{"state": "settled"}', None),
    ],
)
def test_a_conflict_that_proves_it_is_finished_is_accepted(body: bytes, transcript_id: str | None) -> None:
    """A 409 that names the transcript or says finished is our own earlier settlement."""
    expected = transcript_id or f"sha256:{hashlib.sha256(body).hexdigest()}"

    assert result_of(answered(409, body), NOW) == Accepted(expected)


@pytest.mark.parametrize("body", [b"", b"Conflict", b'{"state": "in_progress"}', b'{"transcript_id": ""}'])
def test_a_conflict_without_proof_is_repeated(body: bytes) -> None:
    """A 409 that may mean "still running" is not taken for a settlement, unless the rail's every 409 is one."""
    cautious = result_of(answered(409, body), NOW)
    trusting = result_of(answered(409, body), NOW, conflict_is_finished=True)

    assert summary(cautious) == ("Retryable", "rpc")
    assert isinstance(trusting, Accepted)


@pytest.mark.parametrize(
    "outcome",
    [
        Accepted("tr-9"),
        Skipped(SettlementSkipReason.DENIED),
        Retryable(SettlementFailureReason.from_detail(Code.BACKEND, "busy")),
        Permanent(SettlementFailureReason.from_detail(Code.SIGNATURE, "bad")),
    ],
)
def test_an_outcome_document_is_honoured(outcome: Accepted | Skipped | Retryable | Permanent) -> None:
    """A 200 whose body is an outcome means what the outcome says."""
    assert result_of(answered(200, SettlementOutcome.canonical_json(outcome)), NOW) == outcome


def test_a_retryable_outcome_with_a_permanent_code_is_permanent() -> None:
    """An outcome that asks for a repeat its code does not allow is permanent."""
    reason = SettlementFailureReason.from_detail(Code.SIGNATURE, "bad")
    body = SettlementOutcome.canonical_json(Retryable(reason))

    assert result_of(answered(200, body), NOW) == Permanent(reason)


def test_an_outcome_of_another_schema_is_permanent() -> None:
    """An outcome document of a version nobody knows is never taken for success."""
    body = b'{"kind": "accepted", "schema": "chio.settle.outcome.v3", "transcript_id": "tr-1"}'

    assert summary(result_of(answered(200, body), NOW)) == ("Permanent", "invalid_observation")


def test_an_outcome_that_does_not_decode_is_permanent() -> None:
    """An outcome document with an unknown field is refused, not guessed at."""
    body = b'{"kind": "accepted", "schema": "chio.settle.outcome.v2", "transcript_id": "tr-1", "more": 1}'

    assert summary(result_of(answered(200, body), NOW)) == ("Permanent", "serialization")


def test_an_accepted_outcome_without_a_usable_id_is_named_by_its_digest() -> None:
    """A transcript id that cannot be shown is replaced by the digest of the body, in an outcome too."""
    body = SettlementOutcome.canonical_json(Accepted("two\nlines"))

    assert result_of(answered(200, body), NOW) == Accepted(f"sha256:{hashlib.sha256(body).hexdigest()}")


def test_the_detail_is_only_hashed() -> None:
    """What the rail said is in no repr of the result, and another text gives another digest."""
    first = result_of(answered(422, b"account 4711 unknown"), NOW)
    second = result_of(answered(422, b"account 4712 unknown"), NOW)

    assert "4711" not in repr(first)
    assert first != second
    assert first == result_of(answered(422, b"account 4711 unknown"), NOW)
