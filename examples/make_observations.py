# ruff: noqa: INP001  # a script beside the data it makes, no package
"""
Write `observations.jsonl`, the settlement observations of the demo: the same bytes on every run.

Most lines are ordinary. The tool names that begin with `rail.` tell the rail simulator how to misbehave
(`worker/simulators/rail_script.py` and `rail_script.json` beside this file); `ROWS` says how many there are of each.

    lines       1000
    admitted     927  different receipts
      settled    900  of them 94 after trouble
      dead        27  18 refused, 3 skipped for a positive amount, 6 after the last retry
    duplicate     60  the bytes of an earlier line once more
    conflict       1  the id of an earlier line with another amount
    invalid       12  each for another reason
"""

import functools
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from reliability.settlement import OBSERVATION_SCHEMA, SettlementObservation

TARGET = Path(__file__).with_name("observations.jsonl")
FIRST_FINALIZED_AT = 1_760_000_000

#: How many receipts there are of each tool that misbehaves, and whether they end settled.
ROWS = {
    "rail.fail-once": (40, True),
    "rail.fail-twice": (20, True),
    "rail.busy": (6, True),
    "rail.flaky": (5, True),
    "rail.slow-0.3": (8, True),
    "rail.reset-after-body": (10, True),
    "rail.409": (5, True),
    "rail.422": (12, False),
    "rail.404": (3, False),
    "rail.outcome-permanent": (3, False),
    "rail.outcome-skipped": (3, False),
    "rail.always-503": (6, False),
}
RECEIPTS = 927
DUPLICATES = 60
CONFLICTS = 1
#: Every how-manieth receipt comes twice.
DUPLICATE_STRIDE = 15
#: A duplicate comes between so many receipts after the first.
NEAREST_DUPLICATE, FARTHEST_DUPLICATE = 3, 300

TENANTS = ("aurora-labs", "basalt-freight", "cinder-health", "delta-grid", "ember-retail", None)
TOOLS = (
    ("search.example", "search.query"),
    ("search.example", "search.summarize"),
    ("maps.example", "route.plan"),
    ("documents.example", "invoice.extract"),
    ("documents.example", "contract.compare"),
    ("images.example", "image.render"),
    ("speech.example", "audio.transcribe"),
)
#: A currency, and the most a receipt costs in its minor unit.
CURRENCIES = (("EUR", 25_000), ("USD", 25_000), ("GBP", 20_000), ("JPY", 40_000), ("CHF", 25_000))
CAPABILITIES = 24


def lines() -> list[bytes]:
    """Return every line of the file, without line feeds."""
    placed = [*_receipts(), *_duplicates(), *_conflicts(), *_invalid()]
    return [line for _, line in sorted(placed, key=lambda entry: entry[0])]


def _receipts() -> Iterator[tuple[float, bytes]]:
    for number in range(RECEIPTS):
        yield number, _observation(number).canonical_json()


def _duplicates() -> Iterator[tuple[float, bytes]]:
    for number in range(DUPLICATES):
        original = number * DUPLICATE_STRIDE + 2
        distance = _pick("distance", number, FARTHEST_DUPLICATE - NEAREST_DUPLICATE) + NEAREST_DUPLICATE
        yield original + distance + 0.25, _observation(original).canonical_json()


def _conflicts() -> Iterator[tuple[float, bytes]]:
    original = _observation(500)
    dearer = original.amount.model_copy(update={"units": original.amount.units + 1})
    yield 640.5, original.model_copy(update={"amount": dearer}).canonical_json()


def _invalid() -> Iterator[tuple[float, bytes]]:
    for number, line in enumerate(_invalid_lines()):
        yield 40 + number * 73 + 0.75, line


def _invalid_lines() -> Iterator[bytes]:
    """Return lines that are refused, each for another reason; their ids occur in no other line."""
    good = {**_observation(RECEIPTS).to_wire(), "receipt_id": "rcpt_invalid"}
    amount = {"units": 5, "currency": "EUR"}
    yield _dump(good)[:-40]
    yield _dump({**good, "priority": "high"})
    yield _dump({name: value for name, value in good.items() if name != "capability_id"})
    yield _dump({**good, "schema": "chio.settle.observation.v2"})
    yield _dump({**good, "amount": {**amount, "units": 0}})
    yield _dump({**good, "amount": {**amount, "units": -5}})
    yield _dump({**good, "amount": {**amount, "units": 12.5}})
    yield _dump({**good, "amount": {**amount, "units": "5"}})
    yield _dump({**good, "amount": {**amount, "units": 2**64}})
    yield _dump({**good, "amount": {**amount, "currency": "euro"}})
    yield _dump({**good, "receipt_id": "rcpt_two\nlines"})
    yield _dump(good).replace(b'"tool_name"', b'"tool_server": "other.example", "tool_name"')


def _observation(number: int) -> SettlementObservation:
    server, tool = TOOLS[_pick("tool", number, len(TOOLS))]
    currency, most = CURRENCIES[_pick("currency", number, len(CURRENCIES))]
    trouble = _trouble_by_receipt().get(number)
    wire = {
        "schema": OBSERVATION_SCHEMA,
        "receipt_id": f"rcpt_{_digest('receipt', number)[:24]}",
        # A few arrive out of order, as they do from several producers.
        "finalized_at": FIRST_FINALIZED_AT + number * 4 + _pick("time", number, 9),
        "tool_server": "rail.example" if trouble else server,
        "tool_name": trouble or tool,
        "capability_id": f"cap_{_digest('capability', _pick('capability', number, CAPABILITIES))[:12]}",
        "amount": {"units": 1 + _pick("units", number, most), "currency": currency},
        "content_hash": f"sha256:{_digest('content', number)}",
        "policy_hash": f"sha256:{_digest('policy', _pick('policy', number, 5))}",
    }
    tenant = TENANTS[_pick("tenant", number, len(TENANTS))]
    return SettlementObservation.from_wire({**wire, "tenant_id": tenant} if tenant else wire)


@functools.cache
def _trouble_by_receipt() -> dict[int, str]:
    """Spread the receipts that meet trouble over the file."""
    order = sorted(range(RECEIPTS), key=lambda number: _digest("place", number))
    tools = [tool for tool, (count, _) in ROWS.items() for _ in range(count)]
    return dict(zip(order, tools, strict=False))


def _pick(what: str, number: int, below: int) -> int:
    return int(_digest(what, number)[:12], 16) % below


def _digest(what: str, number: int) -> str:
    return hashlib.sha256(f"{what}/{number}".encode()).hexdigest()


def _dump(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


if __name__ == "__main__":
    TARGET.write_bytes(b"".join(line + b"\n" for line in lines()))
