"""Flower shows tasks with ids and states to who may see them, and no payload to anybody."""

import json
from collections.abc import Iterator
from pathlib import Path

import celery
import pytest

from tests.support import observations, servers
from tests.support.flower import Flower
from tests.support.worker_process import WorkerProcess, poll

pytestmark = [pytest.mark.server, pytest.mark.process]

LIMIT_S = 20.0
#: A database of the session's server that no other test uses.
DATABASE = 61
SECRET = "4929-1234-5678-9012"


@pytest.fixture(scope="module")
def flower(tmp_path_factory: pytest.TempPathFactory, redis_server: servers.RedisServer) -> Iterator[Flower]:
    """Run one Flower with a password for both tests."""
    flower = Flower(tmp_path_factory.mktemp("flower"), redis_server.url_of(DATABASE))
    with redis_server.client(DATABASE) as client:
        client.flushdb()
    with flower.process, redis_server.client() as client:
        poll(lambda: flower.get("/workers")[0] == 200, LIMIT_S, "Flower to answer")
        # What is told before Flower listens, it never sees.
        poll(lambda: client.pubsub_numpat() > 0, LIMIT_S, "Flower to listen to events")
        yield flower


def test_tasks_are_shown_without_payload(flower: Flower, redis_server: servers.RedisServer, tmp_path: Path) -> None:
    """A foreign producer's task is shown by id, name and state; what it carried stands nowhere."""
    redis_url = redis_server.url_of(DATABASE)
    wire = observations.observation(receipt_id="rcpt-seen", tool_name=SECRET).to_wire()
    with _foreign_producer(redis_url) as producer:
        sent = producer.send_task("chio.settle.observe", kwargs={"observation": wire}, queue="settlement")
    poll(lambda: _state(flower, sent.id) == "PENDING", LIMIT_S, "Flower to show that the task was sent")
    pending = flower.get("/api/tasks")[1]
    with WorkerProcess(tmp_path / "w1", redis_url, environ={"CHIO_SEND_TASK_EVENTS": "true"}):
        poll(lambda: _state(flower, sent.id) == "SUCCESS", LIMIT_S, "Flower to show that the task ended")
        pages = [flower.get(path)[1] for path in ("/api/tasks", f"/task/{sent.id}", "/tasks", "/broker", "/workers")]

    task = json.loads(pages[0])[sent.id]
    assert (task["name"], task["kwargs"]) == ("chio.settle.observe", "{'receipt_id': 'rcpt-seen'}")
    assert sent.id in pages[1]
    assert "settlement" in pages[3]
    assert SECRET not in pending
    assert SECRET not in "".join(pages)


def _foreign_producer(redis_url: str) -> celery.Celery:
    """Return the app of another code base, which tells every argument in its own events."""
    producer = celery.Celery("foreign", broker=redis_url, set_as_current=False)
    producer.conf.update(task_send_sent_event=True, broker_transport_options={"global_keyprefix": "chio:broker:"})
    return producer


def _state(flower: Flower, task_id: str) -> str:
    status, body = flower.get("/api/tasks")
    return json.loads(body).get(task_id, {}).get("state", "") if status == 200 else ""


def test_strangers_see_nothing(flower: Flower) -> None:
    """Without the password every page and every command is refused; with it the commands are refused as well."""
    pages = ("/", "/workers", "/tasks", "/broker", "/api/tasks", "/api/workers", "/metrics", "/healthcheck")

    without = {flower.get(path, user=None)[0] for path in pages}
    wrong = {flower.get(path, user="operator:guess")[0] for path in pages}
    shutdown = [
        flower.get("/api/worker/shutdown/worker@h", user=user, data=b"")[0] for user in (None, "operator:pass:word")
    ]

    assert without == wrong == {401}
    assert shutdown[0] == 401
    assert shutdown[1] in (401, 403, 404, 405)
