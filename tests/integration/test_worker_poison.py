"""No message, however malformed, stops a worker or blocks the messages behind it (promise P7)."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis

from storage.quarantine import QuarantineEntry
from tests.support import poison, servers
from tests.support.operator import Operator
from tests.support.worker_process import WorkerProcess, poll
from worker import quarantine

pytestmark = [pytest.mark.server, pytest.mark.process]

#: A message behind a poisoned one has to run within this.
LIMIT_S = 1.0
QUEUE_KEY = "chio:broker:settlement"


class Bench:
    """Hold one worker and everything a poison test does with it."""

    def __init__(self, redis_url: str, directory: Path, pool: str) -> None:
        self.worker = WorkerProcess(directory / "worker", redis_url, environ={"CHIO_POOL": pool})
        self.operator = Operator(redis_url, directory)
        self.client = redis.Redis.from_url(redis_url)
        self.database = int(urlsplit(redis_url).path.lstrip("/"))
        self._sent = 0

    def push(self, element: bytes) -> None:
        """Put an element where the worker takes it from."""
        self.client.lpush(QUEUE_KEY, element)

    def run_good(self) -> None:
        """Send a sound message behind whatever was pushed, and wait until it has run."""
        self._sent += 1
        settled = self.operator.settled()
        job = self.operator.admit(f"good-{self._sent}")
        self.push(poison.good_element(job.job_id))
        poll(lambda: self.operator.settled() == settled + 1, LIMIT_S, "the sound message to run")

    def kept(self) -> list[QuarantineEntry]:
        """Return what is in quarantine."""
        return self.operator.storage.quarantine.list(1_000)

    def close(self) -> None:
        """End the worker and close every connection."""
        self.worker.kill()
        self.operator.close()
        self.client.close()


@pytest.fixture(scope="module", params=["prefork", "threads"])
def bench(
    request: pytest.FixtureRequest, redis_server: servers.RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    """Give one worker to all tests of this file: that it survives them all is the point."""
    database = {"prefork": 62, "threads": 63}[request.param]
    redis_url = redis_server.url_of(database)
    bench = Bench(redis_url, tmp_path_factory.mktemp(request.param), request.param)
    bench.client.flushdb()
    with bench.worker:
        yield bench
    bench.close()


@pytest.mark.parametrize("name", poison.POISON)
def test_poison_is_quarantined_and_the_next_message_runs(bench: Bench, name: str) -> None:
    """A message Celery cannot turn into a task is kept with its bytes, queue and reason; the one behind it runs."""
    element, reason = poison.POISON[name]
    pid, before = bench.worker.pid, len(bench.kept())

    bench.push(element)
    bench.run_good()

    poll(lambda: len(bench.kept()) == before + 1, LIMIT_S, "the message to be quarantined")
    entry = bench.kept()[-1]
    assert (entry.reason, entry.queue, entry.size_bytes) == (reason, "settlement", len(element))
    assert bench.operator.storage.quarantine.raw(entry.entry_id) == element
    assert bench.worker.is_running
    assert bench.worker.pid == pid
    assert bench.worker.log_text().count("Connected to") == 1


@pytest.mark.parametrize("garbage", [b"5", b"[]", b"{}", b"null", b'{"properties": {}}', b"no json"])
def test_garbage_in_a_broadcast_leaves_the_worker_alone(bench: Bench, garbage: bytes) -> None:
    """Rubbish on the remote control channel, which ends a plain worker, is set aside like any other."""
    channel = f"chio:broker:/{bench.database}.celery.pidbox"

    listeners = bench.client.publish(channel, garbage)
    bench.run_good()

    assert listeners == 1
    assert bench.operator.app.control.inspect(timeout=LIMIT_S, limit=1).ping()


def test_nothing_of_a_quarantined_message_stays_with_the_broker(bench: Bench) -> None:
    """A quarantined message is acknowledged: the broker will not hand it out again."""
    bench.push(poison.POISON["no id"][0])
    bench.run_good()

    poll(lambda: _unfinished(bench) == 0, LIMIT_S * 2, "every message to be acknowledged")


def test_no_byte_of_a_quarantined_message_is_logged(bench: Bench) -> None:
    """The log tells reason, queue and digest of a poisoned message, never what it held."""
    secret = "4929-1234-5678-9012"
    bench.push(poison.element_bytes(headers=poison.sound_headers(task=secret)))
    bench.push(poison.element_bytes(body=[[], [secret], {}]))
    bench.run_good()

    assert secret not in bench.worker.log_text()
    assert "message.quarantined" in bench.worker.log_text()


def test_a_requeued_message_runs(bench: Bench) -> None:
    """What was quarantined by mistake can be handed in again, as it was, once its reason is gone."""
    settled = bench.operator.settled()
    job = bench.operator.admit(f"again-{bench.worker.pid}")

    quarantine.requeue(bench.operator.app, poison.good_element(job.job_id), "settlement")

    poll(lambda: bench.operator.settled() == settled + 1, LIMIT_S, "the requeued message to run")


def _unfinished(bench: Bench) -> int:
    # A watermark may just be on its way, so the only message that counts is one of the queue's own.
    held = bench.client.hgetall("chio:broker:unacked").values()
    return sum(b"chio.ledger.mark" not in raw for raw in held if isinstance(raw, bytes))
