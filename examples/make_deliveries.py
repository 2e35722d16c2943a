# ruff: noqa: INP001  # a script beside the data it makes, no package
"""
Write `deliveries.jsonl`, the deliveries of the demo: the same bytes on every run.

Three partners of `demo_partners.toml` get them. The demo keeps the first one down for a while, `partner_script.json`
says what the other two do.

    lines        100
    admitted      90  different messages
      harbour     60  down at first: its circuit opens, they wait, and are confirmed once it is back
      lantern     24  takes them and confirms each a moment later
      ember        6  takes them and never confirms: escalated, sent again, dead letters in the end
    duplicate      5  the bytes of an earlier line once more
    conflict       1  the id of an earlier line with another body
    invalid        4  an unknown partner, a header that is not allowed, one with a line break, an expired delivery
"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

TARGET = Path(__file__).with_name("deliveries.jsonl")
FIRST_CREATED_AT = 1_760_000_000
#: How many messages each partner gets.
ROWS = {"harbour": 60, "lantern": 24, "ember": 6}
MESSAGES = sum(ROWS.values())
DUPLICATES = 5
CONFLICTS = 1
INVALID = 4
#: Every how-manieth message comes twice.
DUPLICATE_STRIDE = 17


def lines() -> list[bytes]:
    """Return every line of the file, without line feeds."""
    placed = [*_messages(), *_duplicates(), *_conflicts(), *_invalid()]
    return [_dump(delivery) for _, delivery in sorted(placed, key=lambda entry: entry[0])]


def _messages() -> Iterator[tuple[float, dict[str, object]]]:
    for number in range(MESSAGES):
        yield number, _delivery(number)


def _duplicates() -> Iterator[tuple[float, dict[str, object]]]:
    for number in range(DUPLICATES):
        original = number * DUPLICATE_STRIDE + 2
        yield original + 9.25, _delivery(original)


def _conflicts() -> Iterator[tuple[float, dict[str, object]]]:
    yield 50.5, {**_delivery(40), "body": '{"event":"receipt.corrected"}'}


def _invalid() -> Iterator[tuple[float, dict[str, object]]]:
    """Yield deliveries that are refused, each for another reason; their ids occur in no other line."""
    good = {**_delivery(MESSAGES), "partner_id": "harbour", "message_id": "msg_invalid"}
    yield 10.75, {**good, "partner_id": "nobody"}
    yield 30.75, {**good, "headers": {"x-internal": "1"}}
    yield 50.75, {**good, "headers": {"x-trace-id": "1\r\nwebhook-id: forged"}}
    yield 70.75, {**good, "expires_at": FIRST_CREATED_AT + 86_400}


def _delivery(number: int) -> dict[str, object]:
    message_id = f"msg_{_digest('message', number)[:20]}"
    body = {"event": "receipt.finalized", "receipt_id": f"rcpt_{_digest('receipt', number)[:24]}", "number": number}
    delivery: dict[str, object] = {
        "schema": "chio.deliver.request.v1",
        "message_id": message_id,
        "partner_id": _partner_of(number),
        "content_type": "application/json",
        "body": json.dumps(body, separators=(",", ":")),
        "created_at": FIRST_CREATED_AT + number,
    }
    return {**delivery, "headers": {"x-trace-id": _digest("trace", number)[:16]}} if number % 3 == 0 else delivery


def _partner_of(number: int) -> str:
    """Spread the partners over the file."""
    order = sorted(range(MESSAGES), key=lambda each: _digest("place", each))
    partners = [partner for partner, count in ROWS.items() for _ in range(count)]
    return dict(zip(order, partners, strict=True)).get(number, "harbour")


def _digest(name: str, number: int) -> str:
    return hashlib.sha256(f"delivery {name} {number}".encode()).hexdigest()


def _dump(delivery: dict[str, object]) -> bytes:
    return json.dumps(delivery, separators=(",", ":")).encode()


if __name__ == "__main__":
    TARGET.write_bytes(b"".join(line + b"\n" for line in lines()))
