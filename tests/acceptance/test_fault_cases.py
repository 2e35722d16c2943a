"""
Faults of messages that plain Celery on Redis gets wrong, each under the name of its row; one worker lives through all.

| row | what plain Celery does | here |
|---|---|---|
| A1 | runs a long countdown several times | refuses the settings, parks what is longer than a hop |
| A7 | reconnects for ever over a message without an id | quarantined; `test_worker_poison.py` has every kind |
| A9 | drops what it cannot read | quarantined with bytes and reason |
| A10 | stops working behind many countdowns | the next job runs at once |
| A15 | skips failure hooks when the result store is down | there is none; `..._servers.py` takes the ledger away |
| A22 | changes a message from one retry to the next | queue, headers and limits stay |
| A23 | takes payloads that fill the server | refused at the producer |

A2, A3 and A19 kill their workers: `test_fault_cases_kills.py`. A4, A13, A16, A17, A21 and A24 need servers of their
own: `test_fault_cases_servers.py`.
"""

import base64
import itertools
import json
from collections.abc import Iterator
from typing import Any, Final

import psutil
import pytest
import redis

from reliability.errors import InvalidInputError
from storage.jobs import JobState, Reschedule
from tasks import enqueue, names
from tests.support import builders, poison
from tests.support import fleet as fleets
from tests.support.fleet import Fleet
from tests.support.rail import scripted
from tests.support.servers import RedisServer
from tests.support.worker_process import WorkerProcess, poll
from worker import preflight
from worker.envelope import Defect

pytestmark = [pytest.mark.server, pytest.mark.process]

QUEUE_KEY: Final = "chio:broker:settlement"
UNACKED_KEY: Final = "chio:broker:unacked"
#: What should follow at once has to come within this, in seconds.
AT_ONCE_S: Final = 2.0
HOUR_MS: Final = 3_600_000
MEBIBYTE: Final = 1_048_576
#: A job that always fails ends soon.
TWO_RETRIES: Final = {"CHIO_SETTLEMENT_MAX_RETRIES": "2"}
#: A rail that asks once for a pause longer than a hop.
SCRIPT: Final = scripted({"busy": ["503:3", "ok"]})

_numbers = itertools.count()


@pytest.fixture(scope="module")
def fleet(redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Run one deployment for the tests whose worker survives."""
    directory, url = tmp_path_factory.mktemp("faults"), redis_server.url_of(59)
    with fleets.running(directory, url, script=SCRIPT, settings=TWO_RETRIES) as fleet:
        yield fleet


@pytest.fixture(scope="module")
def worker(fleet: Fleet) -> WorkerProcess:
    """Give the worker that survives."""
    return fleet.worker().wait_until_ready()


@pytest.fixture
def broker(fleet: Fleet) -> Iterator[redis.Redis]:
    """Give a client of the broker."""
    with redis.Redis.from_url(fleet.redis_url) as client:
        yield client


@pytest.fixture
def receipt(request: pytest.FixtureRequest) -> str:
    """Give a receipt id that no other test uses."""
    return f"{request.node.name[:9]}-{next(_numbers)}"


def test_a1_a_countdown_longer_than_the_visibility_timeout_is_refused(fleet: Fleet) -> None:
    """A worker with which a waiting message would be handed out twice ends at once, saying what to change."""
    refused = fleet.worker(CHIO_MAX_HOP_S="14", CHIO_VISIBILITY_TIMEOUT_S="5")

    code = refused.wait(fleets.LIMIT_S)

    assert code == preflight.EXIT_UNSAFE
    assert "CHIO_VISIBILITY_TIMEOUT_S (5) must exceed CHIO_MAX_HOP_S" in refused.log_text()


def test_a1_a_delay_longer_than_a_hop_runs_once(fleet: Fleet, worker: WorkerProcess, receipt: str) -> None:
    """A retry that is due after more than one hop waits in the ledger with no message; of two workers one runs it."""
    beside = fleet.worker().wait_until_ready()
    fleet.enqueue(receipt, tool="busy")
    poll(lambda: bool(fleet.storage.jobs.rows(JobState.PARKED, 1)), fleets.LIMIT_S, "the retry to be parked")

    fleet.wait_until_ended(receipt)

    assert (worker.is_running, beside.is_running) == (True, True)
    beside.kill()
    assert fleet.requests(receipt) == 2
    assert fleet.effects(receipt) == 1


def test_a7_a_message_without_an_id_stops_nothing(
    fleet: Fleet, worker: WorkerProcess, broker: redis.Redis, receipt: str
) -> None:
    """A message without an id is quarantined with its bytes; the five behind it run, without a reconnect."""
    element = poison.element_bytes(headers=poison.without("id"))
    receipts = [f"{receipt}-{number}" for number in range(5)]
    pid = worker.pid

    broker.lpush(QUEUE_KEY, element)
    fleet.enqueue(*receipts)

    poll(lambda: fleet.in_flight() == 0, AT_ONCE_S, "the five to run")
    assert quarantined(fleet)[element] == Defect.MISSING_ID
    assert (worker.is_running, worker.pid) == (True, pid)
    assert worker.log_text().count("Connected to") == 1


def test_a9_nothing_that_cannot_be_read_is_dropped(
    fleet: Fleet, worker: WorkerProcess, broker: redis.Redis, receipt: str
) -> None:
    """An unknown task, a pickle, broken JSON and a false gzip are kept with reason and bytes, and counted."""
    rows = {
        poison.element_bytes(headers=poison.sound_headers(task="tasks.gone")): Defect.UNKNOWN_TASK,
        poison.element_bytes(content_type="application/x-python-serialize"): Defect.FOREIGN_CONTENT_TYPE,
        poison.element_bytes(encoded=base64.b64encode(b"{broken").decode()): Defect.UNDECODABLE,
        poison.element_bytes(headers=poison.sound_headers(compression="application/x-gzip")): Defect.UNDECODABLE,
    }
    before, ran = fleet.storage.quarantine.counts().kept, fleet.rail.tally().requests

    broker.lpush(QUEUE_KEY, *rows)
    fleet.enqueue(receipt)

    fleet.wait_until_ended(receipt)
    poll(lambda: fleet.storage.quarantine.counts().kept == before + 4, AT_ONCE_S, "four messages to be kept")
    kept = quarantined(fleet)
    assert {element: kept[element] for element in rows} == rows
    assert fleet.rail.tally().requests == ran + 1
    assert worker.is_running


def test_a10_jobs_that_are_due_later_hold_nobody_up(fleet: Fleet, worker: WorkerProcess, receipt: str) -> None:
    """Two hundred jobs that are due in an hour take no place and no memory in a worker: the next job runs at once."""
    fleet.enqueue(f"{receipt}-warm")
    fleet.wait_until_ended(f"{receipt}-warm")
    prefetch, memory = prefetch_of(fleet, worker), psutil.Process(worker.pid).memory_info().rss
    later = [f"{receipt}-later-{number}" for number in range(200)]
    for each in later:
        claim = builders.admitted_and_claimed(fleet.storage.jobs, fleets.settlement(each))
        fleet.storage.jobs.record(claim, Reschedule(attempt=1, delay_ms=HOUR_MS, publishes=False))

    fleet.enqueue(receipt)

    poll(lambda: fleet.storage.jobs.get(receipt) is None, AT_ONCE_S, "the job that is due to run")
    assert prefetch_of(fleet, worker) == prefetch
    assert psutil.Process(worker.pid).memory_info().rss - memory < 5 * MEBIBYTE
    assert all(fleet.storage.jobs.cancel(each) for each in later)


def test_a15_a_dead_letter_needs_no_result_store(fleet: Fleet, worker: WorkerProcess, receipt: str) -> None:
    """A job whose retries are spent is dead-lettered by its own attempt; there is no result store that could fail."""
    fleet.enqueue(receipt, tool="rail.always-503")

    fleet.wait_until_ended(receipt)

    record = fleet.storage.dead_letters.get(receipt)
    assert record is not None
    assert record.attempts == 3
    assert fleet.requests(receipt) == 3
    assert fleet.operator.app.conf.result_backend is None
    assert worker.is_running


def test_a22_a_retry_keeps_what_its_caller_set(
    fleet: Fleet, worker: WorkerProcess, broker: redis.Redis, receipt: str
) -> None:
    """Attempts 1 and 2 of a foreign producer's message carry its queue, trace header, priority and limits."""
    observation = json.loads(fleets.observation(receipt, "rail.fail-twice").canonical_json())
    caller = {"headers": {"traceparent": "00-abc-def-01"}, "priority": 3, "time_limit": 4, "soft_time_limit": 3}
    seen: dict[int, dict[str, Any]] = {}

    fleet.operator.app.send_task(
        names.OBSERVE_SETTLEMENT, kwargs={"observation": observation}, queue="settlement", **caller
    )
    poll(lambda: note_retries(broker, receipt, seen) and len(seen) == 2, fleets.LIMIT_S, "two retries to be sent")

    fleet.wait_until_ended(receipt)
    for message in seen.values():
        assert message["headers"]["traceparent"] == "00-abc-def-01"
        assert message["headers"]["timelimit"] == [4, 3]
        assert message["properties"]["priority"] == 3
        assert message["properties"]["delivery_info"]["routing_key"] == "settlement"
    assert worker.is_running


def test_a23_a_payload_of_a_megabyte_is_refused_at_the_producer(fleet: Fleet, worker: WorkerProcess) -> None:
    """A payload that is too large is refused with its size and the limit before anything reaches a server."""
    large = fleets.observation("a23", "x" * MEBIBYTE)
    before = fleet.counts()

    with pytest.raises(InvalidInputError, match="65536"):
        enqueue.enqueue_settlement(fleet.operator.app, fleet.storage.jobs, large, 65_536)

    assert fleet.counts() == before
    assert worker.is_running


def quarantined(fleet: Fleet) -> dict[bytes, str]:
    """Return the reasons of what is in quarantine by its bytes."""
    storage = fleet.storage.quarantine
    return {storage.raw(entry.entry_id) or b"": entry.reason for entry in storage.list(1_000)}


def prefetch_of(fleet: Fleet, worker: WorkerProcess) -> int:
    """Ask the worker how many messages it takes at a time."""
    stats = fleet.operator.app.control.inspect(timeout=5, limit=1).stats()
    assert worker.is_running
    return int(next(iter(stats.values()))["prefetch_count"])


def note_retries(broker: redis.Redis, receipt: str, seen: dict[int, dict[str, Any]]) -> bool:
    """Look at the messages that workers hold, and note those of this receipt that are retries."""
    held: dict[Any, Any] = broker.hgetall(UNACKED_KEY)
    for message in (json.loads(raw)[0] for raw in held.values()):
        number = message["headers"]["retries"]
        if number and receipt in base64.b64decode(message["body"]).decode():
            seen[number] = message
    return True
