"""
What producers hand in: settlements and deliveries whose tool or message id tells the simulators what to do.

Each kind has the endings it may have. Whatever is killed, a job that can only be refused never settles, and one whose
rail settles in the end is dead only when its attempts were spent on faults.
"""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reliability.delivery_request import DeliveryRequest
from storage.job_ids import delivery_job_id
from storage.jobs import NewJob
from tasks import delivery_messages
from tasks.partners import PartnerDirectory
from tests.support import fleet, partner_file

PARTNER: Final = "acme"
MAX_PAYLOAD_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """Say what a simulator does with a job, how often that is drawn, and what comes of it without any fault."""

    name: str
    steps: Sequence[str]
    weight: int
    #: How often the simulator is asked.
    requests: int = 1
    ends_well: bool = True


#: What the rail does with a settlement, by the tool's name.
RAIL_WAYS: Final = (
    Way(name="well", steps=["ok"], weight=60),
    Way(name="fails-once", steps=["503", "ok"], weight=8, requests=2),
    Way(name="fails-twice", steps=["503", "500", "ok"], weight=4, requests=3),
    Way(name="slow", steps=["slow:0.6"], weight=16),
    Way(name="too-slow", steps=["slow:2.5"], weight=2, requests=2),
    Way(name="hangs-once", steps=["hang", "ok"], weight=1, requests=2),
    Way(name="resets-after", steps=["reset-after-body"], weight=4, requests=2),
    Way(name="resets-before", steps=["reset-before-body"], weight=3, requests=2),
    Way(name="conflict", steps=["conflict"], weight=2),
    Way(name="pending-once", steps=["202", "ok"], weight=3, requests=2),
    Way(name="refused", steps=["422"], weight=4, ends_well=False),
    Way(name="always-fails", steps=["503"], weight=1, requests=9, ends_well=False),
)
#: What the partner does with a delivery, by how the message's id begins.
PARTNER_WAYS: Final = (
    Way(name="well", steps=["ok"], weight=60),
    Way(name="fails-once", steps=["503", "ok"], weight=10, requests=2),
    Way(name="resets-after", steps=["reset-after-body"], weight=5, requests=2),
    Way(name="resets-before", steps=["reset-before-body", "ok"], weight=5, requests=2),
    Way(name="never-confirmed", steps=["never-confirm", "ok"], weight=5, requests=2),
    Way(name="refused", steps=["413"], weight=5, ends_well=False),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Hold one job that a producer hands in."""

    job: NewJob
    way: Way

    def wire(self) -> dict[str, object]:
        """Return the payload as a foreign producer sends it."""
        found: dict[str, object] = json.loads(self.job.payload)
        return found


class Workshop:
    """Make pieces, each with an id of its own."""

    def __init__(self, seed: int, chance: random.Random, partners: PartnerDirectory) -> None:
        self._seed = seed
        self._chance = chance
        self._partners = partners
        self._made = 0

    def settlement(self) -> Piece:
        """Make a settlement."""
        way, number = self._draw(RAIL_WAYS)
        return Piece(job=fleet.settlement(f"rcpt-{self._seed}-{number}", way.name), way=way)

    def delivery(self) -> Piece:
        """Make a delivery."""
        way, number = self._draw(PARTNER_WAYS)
        request = DeliveryRequest.from_wire(
            {
                "schema": "chio.deliver.request.v1",
                "message_id": f"{way.name}-{self._seed}-{number}",
                "partner_id": PARTNER,
                "content_type": "application/json",
                "body": json.dumps({"number": number, "filler": "x" * 100}),
                "created_at": 1_750_000_000,
            }
        )
        return Piece(job=delivery_messages.admissible_delivery(request, self._partners, MAX_PAYLOAD_BYTES), way=way)

    def _draw(self, ways: Sequence[Way]) -> tuple[Way, int]:
        self._made += 1
        return self._chance.choices(ways, [way.weight for way in ways])[0], self._made


def write_rail_script(path: Path) -> Path:
    """Write what the rail does."""
    path.write_text(json.dumps({"tools": {way.name: list(way.steps) for way in RAIL_WAYS}}), encoding="utf-8")
    return path


def write_partner_script(path: Path) -> Path:
    """Write what the partner does."""
    document = {
        "messages": {f"{way.name}-*": list(way.steps) for way in PARTNER_WAYS},
        "secrets": {PARTNER: ["env:ACME_SECRET"]},
    }
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def write_partners(path: Path, url: str) -> Path:
    """Write the partner file."""
    path.write_text(
        f"""
[partners.{PARTNER}]
url = "{url}/p/{PARTNER}"
secrets = ["env:ACME_SECRET"]
deadline_s = 2
allow_private_networks = ["127.0.0.0/8"]
status_rules = {{ "202" = "accepted_pending_verification" }}
retry = {{ max_retries = 8, initial_backoff_ms = 100, backoff_cap_ms = 1000 }}
breaker = {{ failure_threshold = 20, cool_down_ms = 300 }}
""",
        encoding="utf-8",
    )
    return path


def partners_in(path: Path) -> PartnerDirectory:
    """Read the partner file as a producer does."""
    return PartnerDirectory.load(path, partner_file.ENVIRON)


def delivery_key(message_id: str) -> str:
    """Return the id under which the ledger and the partner's log know a delivery."""
    return delivery_job_id(PARTNER, message_id)


SECRETS: Final[Mapping[str, str]] = partner_file.ENVIRON
