"""The wire contract's page and schemas against the code that reads and writes the wire."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from reliability.dead_letter import DeadLetterRecord
from reliability.delivery_request import DeliveryRequest
from reliability.errors import InvalidInputError
from reliability.failures import SettlementFailureCode, SettlementFailureReason, SettlementSkipReason
from reliability.outcomes import Accepted, ClassifiedResult, Permanent, Retryable, Skipped
from reliability.receipt import DeliveryReceipt
from reliability.settlement import SettlementObservation, SettlementOutcome
from tasks import messages, names, observe_settlement, send_delivery
from tasks.attempt_task import AttemptTask
from tests.support.observations import observation

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "wire-contract.md").read_text()


def is_valid(schema: str, value: object) -> bool:
    """Tell whether the schema takes the value."""
    document = json.loads((DOCS / "schemas" / f"{schema}.json").read_text())
    return bool(jsonschema.Draft202012Validator(document).is_valid(value))


def is_admissible(value: object) -> bool:
    """Tell whether the code takes the value for an observation."""
    try:
        messages.admissible_settlement(SettlementObservation.from_wire(value), 65_536)
    except InvalidInputError:
        return False
    return True


def is_name(value: object) -> bool:
    """Tell whether a constant of `tasks.names` is the name of a task or a queue."""
    return isinstance(value, str) and (value.startswith("chio.") or value in names.JOB_QUEUES)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"tenant_id": "tenant-b"},
        {"tenant_id": None},
        {"finalized_at": 0},
        {"finalized_at": 2**53 - 1},
        {"finalized_at": 2**53},
        {"finalized_at": -1},
        {"finalized_at": "5"},
        {"finalized_at": True},
        {"amount": {"units": 1, "currency": "EUR"}},
        {"amount": {"units": 0, "currency": "EUR"}},
        {"amount": {"units": 2**53, "currency": "EUR"}},
        {"amount": {"units": 1, "currency": "eur"}},
        {"amount": {"units": 1}},
        {"amount": {"units": 1, "currency": "EUR", "more": 1}},
        {"receipt_id": ""},
        {"receipt_id": "x" * 200},
        {"receipt_id": "x" * 201},
        {"receipt_id": "with space"},
        {"receipt_id": "umlaut-ü"},
        {"receipt_id": "delivery:p:m"},
        {"schema": "chio.settle.observation.v2"},
        {"surprise": 1},
        {"tool_name": None},
        {"content_hash": 5},
    ],
    ids=str,
)
def test_observation_schema_agrees_with_the_code(changes: dict[str, object]) -> None:
    """The published schema takes exactly what the code admits."""
    value = observation().to_wire() | changes

    assert is_valid("observation.v1", value) == is_admissible(value)


@pytest.mark.parametrize("missing", sorted(observation().to_wire()))
def test_observation_schema_knows_what_is_required(missing: str) -> None:
    """A field may be left out by the schema exactly where the code allows it."""
    value = {name: content for name, content in observation().to_wire().items() if name != missing}

    assert is_valid("observation.v1", value) == is_admissible(value)


REQUEST: dict[str, object] = {
    "schema": "chio.deliver.request.v1",
    "message_id": "msg-1",
    "partner_id": "acme",
    "content_type": "application/json; charset=utf-8",
    "body": "{}",
    "created_at": 1_760_000_000,
}
RECEIPT: dict[str, object] = {
    "schema": "chio.deliver.receipt.v1",
    "partner_id": "acme",
    "message_id": "msg-1",
    "verdict": "confirmed",
}


def is_read(reader: Callable[[object], object], value: object) -> bool:
    """Tell whether the code reads the value."""
    try:
        reader(value)
    except InvalidInputError:
        return False
    return True


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"expires_at": 1_760_000_001},
        {"expires_at": None},
        {"headers": {"x-tenant": "a b"}},
        {"headers": {"X-Tenant": "a"}},
        {"headers": {"host": "other"}},
        {"headers": {"webhook-id": "forged"}},
        {"headers": {"x-tenant": "two\nlines"}},
        {"headers": {"x-tenant": 5}},
        {"body_base64": "e30="},
        {"body": 5},
        {"content_type": ""},
        {"message_id": "with space"},
        {"partner_id": ""},
        {"created_at": 2**53},
        {"created_at": -1},
        {"schema": "chio.deliver.request.v2"},
        {"surprise": 1},
        *({name: ...} for name in REQUEST),
    ],
    ids=str,
)
def test_request_schema_agrees_with_the_code(changes: dict[str, object]) -> None:
    """The published schema takes exactly the requests the code reads; `...` leaves a field out."""
    value = {name: content for name, content in (REQUEST | changes).items() if content is not ...}

    assert is_valid("request.v1", value) == is_read(DeliveryRequest.from_wire, value)


@pytest.mark.parametrize("encoded,is_base64", [("e30=", True), ("", True), ("e30", False), ("e3 0=", False)])
def test_request_schema_knows_base64(encoded: str, *, is_base64: bool) -> None:
    """A body in base64 is padded and holds nothing else, for the schema as for the code."""
    value = {name: content for name, content in REQUEST.items() if name != "body"} | {"body_base64": encoded}

    assert is_valid("request.v1", value) is is_base64
    assert is_read(DeliveryRequest.from_wire, value) is is_base64


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"verdict": "failed", "detail": "because"},
        {"verdict": "maybe"},
        {"detail": "x" * 10_001},
        {"detail": None},
        {"message_id": "umlaut-ü"},
        {"surprise": 1},
        *({name: ...} for name in RECEIPT),
    ],
    ids=lambda changes: str(changes)[:60],
)
def test_receipt_schema_agrees_with_the_code(changes: dict[str, object]) -> None:
    """The published schema takes exactly the receipts the code reads; `...` leaves a field out."""
    value = {name: content for name, content in (RECEIPT | changes).items() if content is not ...}

    assert is_valid("receipt.v1", value) == is_read(DeliveryReceipt.from_wire, value)


REASON = SettlementFailureReason.from_detail(SettlementFailureCode.RPC, "detail")


@pytest.mark.parametrize(
    "result",
    [Accepted("t-1"), Retryable(REASON), Permanent(REASON), *(Skipped(reason) for reason in SettlementSkipReason)],
    ids=repr,
)
def test_outcome_schema_takes_what_the_code_writes(result: ClassifiedResult) -> None:
    """Each kind of outcome the code writes is valid, and one field more is not."""
    written = json.loads(SettlementOutcome.canonical_json(result))

    assert is_valid("outcome.v2", written)
    assert not is_valid("outcome.v2", written | {"surprise": 1})


@pytest.mark.parametrize("code", list(SettlementFailureCode))
def test_dead_letter_schema_takes_what_the_code_writes(code: SettlementFailureCode) -> None:
    """A record with any failure code is valid, one field more or a hex digest is not."""
    record = DeadLetterRecord.new("rcpt-1", 1_760_000_000, 6, SettlementFailureReason.from_detail(code, "detail"))
    written = json.loads(record.canonical_json())

    assert is_valid("dead-letter.v1", written)
    assert not is_valid("dead-letter.v1", written | {"surprise": 1})
    assert not is_valid("dead-letter.v1", written | {"reason": {"code": code.value, "detail_sha256": "00" * 32}})


@pytest.mark.parametrize("code", list(SettlementFailureCode))
def test_page_lists_every_code(code: SettlementFailureCode) -> None:
    """Every failure code is on the page."""
    assert f"`{code.value}`" in PAGE


@pytest.mark.parametrize("name", sorted(value for value in vars(names).values() if is_name(value)))
def test_page_names_tasks_and_queues(name: str) -> None:
    """Every task and queue of the code is on the page under its name on the wire."""
    assert f"`{name}`" in PAGE


@pytest.mark.parametrize("task", [observe_settlement.ObserveSettlement, send_delivery.SendDelivery])
def test_page_names_the_argument_that_carries_whole_work(task: type[AttemptTask]) -> None:
    """What a foreign producer sends stands under the argument the task reads it from."""
    assert re.search(rf"^\| `{task.name}` \| `\w+` \| `{task.whole_argument}`: one ", PAGE, flags=re.MULTILINE)
