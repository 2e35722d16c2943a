"""
The project's image on real brokers in containers: each test runs once with Redis and once with RabbitMQ.

The containers are pytest-celery's; `conftest.py` puts the project's own image in the place of its worker.
"""

import base64
import http.client
import json
from contextlib import closing
from typing import Final

import pytest
from kombu.connection import Connection
from pytest_docker_tools.wrappers import Container

from reliability.dead_letter import DeadLetterRecord
from storage.jobs import JobKind
from tasks import delivery_messages, enqueue, names
from tasks.partners import PartnerDirectory
from tests.containers.conftest import FLOWER_USER, Stack
from tests.support import fleet, partner_file
from tests.support.operator import MAX_PAYLOAD_BYTES, Operator
from tests.support.partner import request
from tests.support.worker_process import poll

pytestmark = [
    pytest.mark.containers,
    pytest.mark.timeout(600),
]

LIMIT_S: Final = 120.0


def settle(operator: Operator, *receipt_ids: str, tool: str = "search.query") -> None:
    """Admit settlements and wake them."""
    jobs = [fleet.settlement(receipt_id, tool) for receipt_id in receipt_ids]
    enqueue.enqueue_many(operator.app, operator.storage.jobs, jobs)


def wait_until_idle(operator: Operator, kind: JobKind = JobKind.SETTLEMENT) -> None:
    """Wait until no job of the kind is in flight."""
    counts = operator.storage.jobs.counts
    poll(lambda: sum(counts(kind).in_flight.values()) == 0, LIMIT_S, "every job to end")


def test_receipts_are_settled_and_dead_letters_read(stack: Stack) -> None:
    """A worker settles once and retries; another system reads the dead letter with kombu alone, as stored."""
    with closing(stack.operator()) as operator:
        settle(operator, "fine-1", "fine-2")
        settle(operator, "retried", tool="rail.fail-twice")
        settle(operator, "dead", tool="rail.always-503")
        wait_until_idle(operator)
        stored = operator.storage.dead_letters.get("dead")

    options = {"global_keyprefix": "chio:broker:"}
    with Connection(stack.broker_url, transport_options=options) as connection:
        letter = connection.SimpleQueue(names.DEAD_LETTER_QUEUE, no_ack=True).get(timeout=LIMIT_S)
    tally = stack.settled()
    assert {key: tally.effects_per_key[key] for key in ("fine-1", "fine-2", "retried", "dead")} == {
        "fine-1": 1,
        "fine-2": 1,
        "retried": 1,
        "dead": 0,
    }
    assert tally.requests_per_key["retried"] == 3
    assert DeadLetterRecord.from_json(json.dumps(letter.payload)) == stored
    assert stored is not None


def test_a_delivery_without_a_receipt_is_escalated_by_beat(stack: Stack, beat: Container) -> None:
    """A partner takes a delivery and confirms nothing: beat has it escalated, and its repeat is confirmed, once."""
    assert beat.status == "running"
    directory = PartnerDirectory.load(stack.partners_file, partner_file.ENVIRON)
    job = delivery_messages.admissible_delivery(request("m-1"), directory, MAX_PAYLOAD_BYTES)
    with closing(stack.operator()) as operator:
        enqueue.enqueue_many(operator.app, operator.storage.jobs, [job])
        poll(lambda: stack.delivered().requests == 2, LIMIT_S, "the repeat")
        wait_until_idle(operator, JobKind.DELIVERY)
        counts = operator.storage.jobs.counts(JobKind.DELIVERY)

    tally = stack.delivered()
    assert (tally.requests, tally.effects, tally.keys_with_differing_bodies) == (2, 1, [])
    assert (sum(counts.finished.values()), counts.dead) == (1, 0)
    assert stack.setup.worker.logs().count('"reconciliation.escalated"') == 1


def test_a_killed_worker_is_replaced(stack: Stack) -> None:
    """A worker is killed while its hooks run and started again: every job ends, with one effect each."""
    receipts = [f"slow-{number}" for number in range(8)]
    with closing(stack.operator()) as operator:
        settle(operator, *receipts, tool="rail.slow-1")
        poll(lambda: stack.settled().requests > 0, LIMIT_S, "some hooks to begin")

        stack.setup.worker.kill()
        stack.setup.worker.restart()
        wait_until_idle(operator)
        counts = operator.storage.jobs.counts(JobKind.SETTLEMENT)

    tally = stack.settled()
    assert [tally.effects_per_key[receipt] for receipt in receipts] == [1] * len(receipts)
    assert (sum(counts.finished.values()), counts.dead) == (len(receipts), 0)


def test_a_broker_is_restarted(stack: Stack) -> None:
    """The broker restarts while jobs wait in it: the worker reconnects, and all jobs end, with one effect each."""
    receipts = [f"queued-{number}" for number in range(10)]
    with closing(stack.operator()) as operator:
        settle(operator, *receipts, tool="rail.slow-0.5")
        stack.setup.broker.container.restart(timeout=5)
        wait_until_idle(operator)
    with closing(stack.operator()) as again:
        settle(again, "afterwards")
        wait_until_idle(again)

    tally = stack.settled()
    assert [tally.effects_per_key[receipt] for receipt in [*receipts, "afterwards"]] == [1] * (len(receipts) + 1)


def test_flower_answers_behind_its_log_in(stack: Stack, flower: Container) -> None:
    """Flower shows the worker to whoever logs in, and tells a stranger nothing, on no page."""
    poll(lambda: asked(flower, "/", None) == 401, LIMIT_S, "Flower to answer")
    pages = ("/", "/workers", "/tasks", "/broker", "/api/workers", "/metrics", "/healthcheck")

    assert {asked(flower, page, None) for page in pages} == {401}
    assert {asked(flower, page, "operator:guess") for page in pages} == {401}
    assert asked(flower, "/workers", FLOWER_USER) == 200
    assert stack.setup.worker.container.status == "running"


def asked(flower: Container, path: str, user: str | None) -> int:
    """Return the status of a page; 0 while Flower is not up."""
    address, port = flower.get_addr("5555/tcp")
    headers = {"Authorization": f"Basic {base64.b64encode(user.encode()).decode()}"} if user else {}
    with closing(http.client.HTTPConnection(address, port, timeout=5)) as connection:
        try:
            connection.request("GET", path, headers=headers)
            return connection.getresponse().status
        except OSError:
            return 0
