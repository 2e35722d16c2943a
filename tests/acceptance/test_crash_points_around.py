"""
Who hands work in, pumps it, feeds, escalates, confirms or replays is killed at every named point; nothing is lost.

The broker's part in these is small, so they run on Redis alone unless `CHIO_TEST_FULL=1` is set.
"""

import base64
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from reliability.receipt import RECEIPT_SCHEMA
from storage.jobs import JobState
from tasks import names
from tasks.crash_points import CrashPoint as At
from tasks.publishing import NO_LIMITS
from tests.support import builders
from tests.support import crew as crews
from tests.support import fleet as fleets
from tests.support.crew import Crew
from tests.support.rail import scripted
from tests.support.worker_process import ROOT, clean_environ, poll

FULL: Final = os.environ.get("CHIO_TEST_FULL") == "1"
BROKERS: Final = ["redis", *(["rabbitmq"] if FULL else [])]
#: A rail that accepts without a receipt once, and settles afterwards.
SCRIPT: Final = scripted({"pending-once": ["202", "ok"]})

pytestmark = [pytest.mark.server, pytest.mark.process, pytest.mark.parametrize("crew", BROKERS, indirect=True)]

_numbers = itertools.count()


@pytest.fixture(scope="module")
def crew(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    """Run one deployment for all tests of a broker."""
    with crews.running(tmp_path_factory.mktemp(request.param), request.param, SCRIPT) as crew:
        yield crew


@pytest.fixture
def receipt(request: pytest.FixtureRequest) -> str:
    """Give a receipt id that no other test uses."""
    return f"{request.node.originalname}-{next(_numbers)}"


@pytest.mark.parametrize("point", [At.AFTER_ADMIT, At.BEFORE_PUBLISH, At.AFTER_PUBLISH])
def test_a_producer_that_dies_has_handed_in_what_it_admitted(crew: Crew, receipt: str, point: At) -> None:
    """A producer is killed between the ledger and the broker: every job it admitted is settled with one effect."""
    crew.on("prefork")
    receipts = [f"{receipt}-{line}" for line in range(3)]
    lines = b"\n".join(fleets.observation(each).canonical_json() for each in receipts)
    crew.orders.give(point)

    code = chio_worker(crew, "enqueue", "settlement", "-", stdin=lines)

    crew.fleet.wait_until_idle()
    assert code == -signal.SIGKILL
    assert [crew.fleet.effects(each) for each in receipts] == [1, 1, 1]
    assert [crew.fleet.requests(each) for each in receipts] == [1, 1, 1]
    assert crew.fleet.is_balanced()


@pytest.mark.parametrize("pool, point", [("prefork", At.PUMP_AFTER_TAKE), ("threads", At.PUMP_AFTER_PUBLISH)])
def test_a_pump_that_dies_has_its_rows_pumped_by_another(crew: Crew, receipt: str, pool: str, point: At) -> None:
    """The due pump is killed around a wake-up: the next worker's pump finds the row again, and one message runs it."""
    worker = crew.on(pool)
    crew.orders.give(point)

    crew.fleet.admit(receipt)

    crew.orders.wait_until_obeyed()
    assert worker.wait(fleets.LIMIT_S) == -signal.SIGKILL
    crew.replace(pool)
    crew.fleet.wait_until_ended(receipt)
    assert crew.fleet.requests(receipt) == 1
    assert crew.fleet.is_balanced()


@pytest.mark.parametrize(
    "pool, point",
    [("threads", At.PUMP_BEFORE_MARK), ("threads", At.PUMP_AFTER_MARK), ("prefork", At.MARK_BEFORE_STORE)],
)
def test_a_lost_mark_is_made_up_for_by_the_next(crew: Crew, receipt: str, pool: str, point: At) -> None:
    """A watermark is lost on its way: the next one says the same and more, and lost messages are still found."""
    crew.on(pool)
    crew.orders.give(point)
    crew.orders.wait_until_obeyed()
    if pool == "threads":
        crew.replace(pool)

    crew.fleet.admit(receipt)

    crew.fleet.wait_until_ended(receipt)
    assert crew.fleet.requests(receipt) == 1


def test_a_feed_that_dies_is_fed_again(crew: Crew, receipt: str) -> None:
    """A dead letter reaches the feed at least once, whoever dies before or after sending it, always with one text."""
    stored = [builders.dead_letter(f"{receipt}-{number}") for number in range(2)]
    crew.on("threads")
    crew.fleet.fed()
    for record in stored:
        crew.fleet.storage.dead_letters.append(record)

    for point in (At.PUMP_BEFORE_FEED, At.PUMP_AFTER_FEED):
        crew.orders.give(point)
        crew.replace("threads")
        crew.orders.wait_until_obeyed()
    crew.replace("threads")
    poll(lambda: crew.fleet.storage.dead_letters.unpublished_count() == 0, fleets.LIMIT_S, "the feed to be fed")

    assert sorted(set(crew.fleet.fed())) == [record.canonical_json() for record in stored]


def test_an_escalation_that_dies_is_done_or_done_again(crew: Crew, receipt: str) -> None:
    """A process is killed right after it escalated: the job is due, is verified once, and settles."""
    await_receipt(crew, receipt)
    crew.orders.give(At.ESCALATE_AFTER_STORE)

    poll(lambda: escalate(crew), fleets.LIMIT_S, "a process to escalate and die")

    crew.fleet.wait_until_ended(receipt)
    assert crew.fleet.effects(receipt) == 1
    assert crew.fleet.storage.reconciliation.counts() == {"pending_verification": 0, "indeterminate": 0}
    assert crew.fleet.is_balanced()


def test_work_that_nobody_admitted_yet_comes_again(crew: Crew, receipt: str) -> None:
    """A process dies over a foreign producer's message before the ledger has it: the message comes again."""
    crew.on("prefork")
    crew.orders.give(At.BEFORE_CLAIM)

    offer(crew, receipt)

    crew.orders.wait_until_obeyed()
    poll(lambda: crew.fleet.storage.jobs.ending(receipt) == "settled", fleets.LIMIT_S, "the job to settle")
    assert crew.fleet.requests(receipt) == 1
    assert quarantined(crew, receipt) == []


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_work_that_was_taken_and_never_begun_comes_again(crew: Crew, receipt: str, pool: str) -> None:
    """A worker is killed with foreign producers' messages in hand, the only copies there are: each is settled once."""
    worker = crew.on(pool)
    receipts = [f"{receipt}-{number}" for number in range(6)]
    crew.orders.give(At.AFTER_TAKE, number=3)

    for each in receipts:
        offer(crew, each)

    crew.orders.wait_until_obeyed()
    assert worker.wait(fleets.LIMIT_S) == -signal.SIGKILL
    crew.replace(pool)
    for each in receipts:
        poll(lambda: crew.fleet.storage.jobs.ending(each) == "settled", fleets.LIMIT_S, "the job to settle")  # noqa: B023  # polled here and now
    assert [crew.fleet.effects(each) for each in receipts] == [1] * len(receipts)


def test_work_that_kills_every_process_is_set_aside(crew: Crew, receipt: str) -> None:
    """A message over which two processes die is kept with its bytes: it would kill the next one too."""
    crew.on("prefork")
    # More deaths than the message may cause: another message may come by.
    crew.orders.give(At.BEFORE_CLAIM, times=5)

    offer(crew, receipt)

    poll(lambda: quarantined(crew, receipt) == ["worker_lost"], fleets.LIMIT_S, "the message to be kept")
    crew.orders.path.unlink(missing_ok=True)
    assert crew.fleet.storage.jobs.get(receipt) is None


def test_a_receipt_whose_process_dies_counts_once(crew: Crew, receipt: str) -> None:
    """A process is killed after it applied a receipt: the job has ended and stays so when the receipt comes again."""
    await_receipt(crew, receipt)
    crew.orders.give(At.CONFIRM_AFTER_STORE)
    wire = {"schema": RECEIPT_SCHEMA, "partner_id": "settlement", "message_id": receipt, "verdict": "confirmed"}

    for _ in range(2):
        crew.fleet.operator.app.send_task(
            names.CONFIRM_DELIVERY, kwargs={"receipt": wire}, queue="delivery", **NO_LIMITS
        )
        crew.orders.wait_until_obeyed()

    crew.fleet.wait_until_ended(receipt)
    assert crew.fleet.storage.jobs.ending(receipt) == "settled"
    assert crew.fleet.requests(receipt) == 1
    assert crew.fleet.is_balanced()


def test_a_replay_that_dies_has_replayed(crew: Crew, receipt: str) -> None:
    """An operator's command is killed between the ledger and the broker: the dead job runs again all the same."""
    crew.on("prefork")
    crew.fleet.enqueue(receipt, tool="rail.always-422")
    crew.fleet.wait_until_ended(receipt)
    requests = crew.fleet.requests(receipt)
    crew.orders.give(At.REPLAY_AFTER_STORE)

    code = chio_worker(crew, "dead-letters", "replay", receipt, "--yes")

    poll(lambda: crew.fleet.requests(receipt) > requests, fleets.LIMIT_S, "the job to run again")
    crew.fleet.wait_until_ended(receipt)
    assert code == -signal.SIGKILL
    assert crew.fleet.storage.dead_letters.get(receipt) is not None
    assert crew.fleet.is_balanced()


def test_a_message_that_nobody_can_read_is_kept_by_who_dies_over_it(crew: Crew, receipt: str) -> None:
    """A worker is killed after it set a message aside: the next one sets the same message aside, and goes on."""
    worker = crew.on("threads")
    crew.orders.give(At.QUARANTINE_AFTER_STORE)

    crew.fleet.operator.app.send_task(f"tasks.of.{receipt}", queue="settlement", **NO_LIMITS)
    assert worker.wait(fleets.LIMIT_S) == -signal.SIGKILL
    successor = crew.on("threads")
    crew.fleet.enqueue(receipt)

    crew.fleet.wait_until_ended(receipt)
    poll(lambda: quarantined(crew, receipt) == ["unknown_task"] * 2, fleets.LIMIT_S, "the message to be kept again")
    assert successor.is_running


def offer(crew: Crew, receipt: str) -> None:
    """Send a whole observation to the broker, as another code base does."""
    observation = json.loads(fleets.observation(receipt).canonical_json())
    crew.fleet.operator.app.send_task(
        names.OBSERVE_SETTLEMENT, kwargs={"observation": observation}, queue="settlement", **NO_LIMITS
    )


def quarantined(crew: Crew, receipt: str) -> list[str]:
    """Return why messages that name the receipt are in quarantine."""
    storage = crew.fleet.storage.quarantine
    return [entry.reason for entry in storage.list(100) if receipt in text_of(storage.raw(entry.entry_id) or b"")]


def text_of(raw: bytes) -> str:
    """Return a quarantined message's headers and its decoded body."""
    message = json.loads(raw)
    return f"{message.get('headers')} {base64.b64decode(message.get('body', '')).decode(errors='replace')}"


def await_receipt(crew: Crew, receipt: str) -> None:
    """Bring a settlement to the state in which it waits for its receipt."""
    crew.on("prefork")
    crew.fleet.enqueue(receipt, tool="pending-once")
    poll(lambda: bool(crew.fleet.storage.jobs.rows(JobState.AWAITING, 1)), fleets.LIMIT_S, "the rail to accept")


def escalate(crew: Crew) -> bool:
    """Send beat's tick; tell whether somebody died of it."""
    crew.fleet.operator.app.send_task(names.ESCALATE_RECONCILIATION, queue="housekeeping", **NO_LIMITS)
    time.sleep(0.3)
    return not crew.orders.path.exists()


def chio_worker(crew: Crew, *arguments: str, stdin: bytes = b"") -> int:
    """Run an armed command and return its exit code."""
    environ = {**crew.fleet.environ(), **crew.orders.environ()}
    return subprocess.run(
        [str(Path(sys.executable).with_name("chio-worker")), *arguments],
        input=stdin,
        env=clean_environ(crew.fleet.directory / "operator", environ),
        cwd=ROOT,
        check=False,
        capture_output=True,
        timeout=60,
    ).returncode
