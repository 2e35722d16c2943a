"""The demo's observations: the committed file is what its generator writes, and holds what the generator says."""

import importlib.util
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from reliability.errors import InvalidInputError
from reliability.outcomes import Accepted, SettlementResult
from reliability.retry import DeadLetter, Retry, RetryPolicy, classify_attempt
from reliability.settlement import SettlementObservation, hold_to_contract
from tasks import messages
from tasks.hooks import http_loop
from tasks.hooks.http_settlement import HttpSettlementHook
from tests.support.rail import running_rail
from worker.simulators.rail_script import RailScript

EXAMPLES = Path(__file__).parents[2] / "examples"
MAX_PAYLOAD_BYTES = 65_536


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    """Import the generator, which is a script and in no package."""
    spec = importlib.util.spec_from_file_location("make_observations", EXAMPLES / "make_observations.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def _fresh_loop() -> Iterator[None]:
    yield
    http_loop.shut_down()


def fate(line: bytes, known: dict[str, bytes]) -> str:
    """Say what admission makes of a line, given what it admitted before."""
    try:
        job = messages.admissible_settlement(SettlementObservation.from_json(line), MAX_PAYLOAD_BYTES)
    except InvalidInputError:
        return "invalid"
    if job.job_id not in known:
        known[job.job_id] = job.payload
        return "admitted"
    return "duplicate" if known[job.job_id] == job.payload else "conflict"


def last_result(hook: HttpSettlementHook, receipt: SettlementObservation) -> SettlementResult:
    """Run attempt after attempt as the default policy decides, without its waits, and return the last answer."""
    policy = RetryPolicy()
    for attempt in range(policy.max_retries + 1):
        result = hold_to_contract(receipt, hook.observe(receipt))  # type: ignore[arg-type]  # none of them is pending
        decision = classify_attempt(policy, attempt, result)
        if not isinstance(decision, Retry):
            break
    assert isinstance(result, Accepted) or isinstance(decision, DeadLetter)
    return result


def test_the_committed_file_is_what_the_generator_writes(generator: ModuleType) -> None:
    """Running the generator again gives the same bytes."""
    written = b"".join(line + b"\n" for line in generator.lines())

    assert (EXAMPLES / "observations.jsonl").read_bytes() == written


def test_the_file_holds_what_the_generator_says(generator: ModuleType) -> None:
    """Admitted, duplicate, conflicting and invalid lines are as many as documented."""
    known: dict[str, bytes] = {}
    fates = Counter(fate(line, known) for line in (EXAMPLES / "observations.jsonl").read_bytes().splitlines())

    assert fates == {
        "admitted": generator.RECEIPTS,
        "duplicate": generator.DUPLICATES,
        "conflict": generator.CONFLICTS,
        "invalid": 12,
    }
    assert sum(fates.values()) == 1000


def test_each_invalid_line_is_refused_for_a_reason_of_its_own(generator: ModuleType) -> None:
    """The malformed lines show different refusals; only zero and negative amounts are told in the same words."""
    reasons = []
    for line in generator._invalid_lines():
        with pytest.raises(InvalidInputError) as refused:
            messages.admissible_settlement(SettlementObservation.from_json(line), MAX_PAYLOAD_BYTES)
        reasons.append(str(refused.value))

    assert len(reasons) == 12
    assert len(set(reasons)) >= 11


def test_every_receipt_that_meets_trouble_ends_as_documented(generator: ModuleType, tmp_path: Path) -> None:
    """Through the real hook and the scripted rail, each row ends settled with one effect, or dead without any."""
    script = RailScript.from_file(EXAMPLES / "rail_script.json")
    by_tool: dict[str, list[SettlementObservation]] = {tool: [] for tool in generator.ROWS}
    for number in range(generator.RECEIPTS):
        receipt = generator._observation(number)
        if receipt.tool_name in by_tool:
            by_tool[receipt.tool_name].append(receipt)

    with running_rail(tmp_path / "effects.jsonl", script) as rail:
        hook = HttpSettlementHook(url=rail.url, total_deadline_s=15.0)
        settled = {
            tool: {isinstance(last_result(hook, receipt), Accepted) for receipt in receipts}
            for tool, receipts in by_tool.items()
        }
        effects = rail.tally().effects_per_key

    assert {tool: len(receipts) for tool, receipts in by_tool.items()} == {
        tool: count for tool, (count, _) in generator.ROWS.items()
    }
    assert settled == {tool: {ends_settled} for tool, (_, ends_settled) in generator.ROWS.items()}
    for tool, receipts in by_tool.items():
        assert {effects[receipt.receipt_id] for receipt in receipts} == {int(generator.ROWS[tool][1])}
