"""The demo's deliveries and partners: the committed files are what the generator writes, and hold together."""

import importlib.util
import json
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from reliability.delivery_request import DeliveryRequest
from reliability.errors import InvalidInputError
from tasks import delivery_messages
from tasks.partners import PartnerDirectory
from tests.support import partner_file
from worker.demo import feeding
from worker.demo.partners import DOWN, LATE, SILENT
from worker.simulators.partner_script import PartnerScript
from worker.simulators.partner_steps import Kind

EXAMPLES = Path(__file__).parents[2] / "examples"
#: Any day after every line of the file was written.
NOW_S = 1_770_000_000


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    """Import the generator, which is a script and in no package."""
    spec = importlib.util.spec_from_file_location("make_deliveries", EXAMPLES / "make_deliveries.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def directory() -> PartnerDirectory:
    """Load the demo's partner file."""
    return PartnerDirectory.load(EXAMPLES / "demo_partners.toml", {"CHIO_SECRET_DEMO": partner_file.SECRET})


def lines() -> list[bytes]:
    """Return the lines of the committed file."""
    return (EXAMPLES / "deliveries.jsonl").read_bytes().splitlines()


def test_the_committed_file_is_what_the_generator_writes(generator: ModuleType) -> None:
    """Running the generator again gives the same bytes."""
    assert lines() == generator.lines()


def test_the_file_holds_what_the_generator_says(generator: ModuleType, directory: PartnerDirectory) -> None:
    """Admitted, duplicate, conflicting and invalid lines are as many as documented, each invalid for its own reason."""
    known: dict[str, bytes] = {}
    fates: Counter[str] = Counter()
    reasons = set()
    for line in lines():
        try:
            request = DeliveryRequest.from_json(line)
            job = delivery_messages.admissible_delivery(request, directory, 65_536, now_s=NOW_S)
        except InvalidInputError as error:
            fates["invalid"] += 1
            reasons.add(str(error))
            continue
        before = known.setdefault(job.job_id, job.payload)
        fates["conflict" if before != job.payload else "duplicate" if before is not job.payload else "admitted"] += 1

    assert fates == {
        "admitted": generator.MESSAGES,
        "duplicate": generator.DUPLICATES,
        "conflict": generator.CONFLICTS,
        "invalid": generator.INVALID,
    }
    assert len(lines()) == 100
    assert len(reasons) == generator.INVALID


def test_each_partner_gets_its_share(generator: ModuleType) -> None:
    """The demo finds its three partners in the file."""
    messages = {(found["partner_id"], found["message_id"]) for found in map(json.loads, lines())}
    shares = Counter(partner for partner, message in messages if message != "msg_invalid")

    assert shares == {DOWN: 60, LATE: 24, SILENT: 6} == generator.ROWS
    assert len(feeding.late_messages(EXAMPLES / "deliveries.jsonl")) == generator.ROWS[LATE]


def test_the_script_does_what_the_demo_tells(directory: PartnerDirectory) -> None:
    """One confirms late, one never, one takes everything; all of them check signatures."""
    script = PartnerScript.from_file(EXAMPLES / "partner_script.json")

    kinds = {partner: script.steps(partner, "msg", [])[0].kind for partner in directory.partners}

    assert kinds == {DOWN: Kind.OK, LATE: Kind.CONFIRM_LATE, SILENT: Kind.NEVER_CONFIRM}
    assert set(script.secrets) == set(directory.partners)
