"""What is Redis' own among the stores: exchanges, lost scripts, lost servers, full memory, tampered rows, bytes."""

import contextlib
import socketserver
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from reliability.circuit import Closed
from reliability.errors import InvalidRecordError, StorageUnavailableError
from storage import bundle, redis_client
from storage.jobs import (
    Admitted,
    Await,
    Bury,
    Claim,
    Conflict,
    Duplicate,
    DuplicateOf,
    Finish,
    FinishedAs,
    JobKind,
    JobState,
    Reschedule,
)
from storage.keys import Key, Keys
from storage.options import LedgerOptions
from storage.redis_jobs import RedisJobStorage
from tests.support import backends, builders, servers

pytestmark = pytest.mark.server

KEYS = Keys(backends.NAMESPACE)
SETTLED = Finish(finished_as=FinishedAs.SETTLED)


@pytest.fixture
def stores(redis_url: str) -> bundle.Storage:
    """Return the stores in the test's database."""
    return backends.on_redis(redis_url).storage


@pytest.fixture
def raw(redis_url: str) -> Iterator[Any]:
    """Return a plain client of the test's database."""
    with redis.Redis.from_url(redis_url, protocol=2) as client:
        yield client


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows by one for each exchange any client begins."""
    begun: list[int] = []
    original = redis.connection.AbstractConnection.send_packed_command

    def counted(*arguments: Any, **options: Any) -> Any:
        begun.append(1)
        return original(*arguments, **options)  # type: ignore[no-untyped-call]  # redis-py leaves it untyped

    monkeypatch.setattr(redis.connection.AbstractConnection, "send_packed_command", counted)
    return begun


def evalsha_calls(raw: Any) -> int:
    """Count the scripts the server ran since its statistics were reset."""
    return int(raw.info("commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"])


def test_admit_claim_and_record_are_one_round_trip_each(stores: bundle.Storage, raw: Any, sent: list[int]) -> None:
    """Each of the three steps of an attempt is exactly one script call in one exchange."""
    jobs = stores.jobs
    jobs.record(builders.admitted_and_claimed(jobs, builders.job("warm")), SETTLED)
    steps: list[tuple[int, int]] = []

    def measured(step: Callable[[], Any]) -> Any:
        raw.config_resetstat()
        sent.clear()
        result = step()
        exchanges = len(sent)
        steps.append((exchanges, evalsha_calls(raw)))
        return result

    measured(lambda: jobs.admit(builders.job()))
    claim = measured(lambda: builders.claimed(jobs))
    measured(lambda: jobs.record(claim, SETTLED))

    assert steps == [(1, 1), (1, 1), (1, 1)]


def test_batches_are_one_exchange(stores: bundle.Storage, sent: list[int]) -> None:
    """A batch of 100 is admitted, claimed, renewed and recorded with one exchange each."""
    names = [f"job-{number}" for number in range(100)]
    jobs = stores.jobs
    jobs.admit_many([builders.job("warm")])
    jobs.record_many([(builders.claimed(jobs, "warm"), SETTLED)])
    jobs.renew([builders.admitted_and_claimed(jobs, builders.job("held"))], 1_000)
    sent.clear()

    jobs.admit_many([builders.job(name) for name in names])
    answers = jobs.claim_many([(name, 0) for name in names], builders.lease())
    claims = [answer for answer in answers if isinstance(answer, Claim)]
    renewed = jobs.renew(claims, 60_000)
    recorded = jobs.record_many([(claim, SETTLED) for claim in claims])

    assert len(sent) == 4
    assert (renewed, recorded) == ([True] * 100, [None] * 100)


def test_server_that_lost_its_scripts_gets_them_again(stores: bundle.Storage, raw: Any) -> None:
    """A restart or a flush of the script cache is not noticed, by single calls and by batches."""
    stores.jobs.admit(builders.job("before"))
    raw.script_flush()

    single = stores.jobs.admit(builders.job("a"))
    raw.script_flush()
    batch = stores.jobs.admit_many([builders.job("a"), builders.job("b"), builders.job("a", payload=b"x")])

    assert single == Admitted()
    assert batch == [Duplicate(of=DuplicateOf.IN_LEDGER), Admitted(), Conflict()]


def operations(stores: bundle.Storage, claim: Claim) -> dict[str, Callable[[], object]]:
    """Return one call of every operation of every store."""
    jobs, letters, queue = stores.jobs, stores.dead_letters, stores.reconciliation
    return {
        "admit": lambda: jobs.admit(builders.job("new")),
        "admit_many": lambda: jobs.admit_many([builders.job("new")]),
        "admit_and_claim": lambda: jobs.admit_and_claim(builders.job("new"), builders.lease()),
        "claim": lambda: jobs.claim("rcpt-1", 0, builders.lease()),
        "claim_many": lambda: jobs.claim_many([("rcpt-1", 0)], builders.lease()),
        "renew": lambda: jobs.renew([claim], 1_000),
        "record": lambda: jobs.record(claim, SETTLED),
        "record_many": lambda: jobs.record_many([(claim, SETTLED)]),
        "due": lambda: jobs.due(1),
        "next_mark": lambda: jobs.next_mark("settlement", 1_000),
        "mark_consumed": lambda: jobs.mark_consumed("settlement", 1),
        "replay": lambda: jobs.replay("rcpt-1"),
        "hold": lambda: jobs.hold("rcpt-1"),
        "release": lambda: jobs.release("rcpt-1"),
        "cancel": lambda: jobs.cancel("rcpt-1"),
        "conclude": lambda: jobs.conclude("rcpt-1", 1, SETTLED),
        "ending": lambda: jobs.ending("rcpt-1"),
        "get": lambda: jobs.get("rcpt-1"),
        "rows": lambda: jobs.rows(JobState.LEASED, 1),
        "counts": lambda: jobs.counts(JobKind.SETTLEMENT),
        "now_ms": jobs.now_ms,
        "dead append": lambda: letters.append(builders.dead_letter()),
        "dead get": lambda: letters.get("rcpt-1"),
        "dead list": letters.list,
        "dead count": letters.count,
        "dead payload": lambda: letters.payload("rcpt-1"),
        "dead clear": lambda: letters.clear("rcpt-1"),
        "take_unpublished": lambda: letters.take_unpublished(1, 1),
        "published": lambda: letters.published("rcpt-1"),
        "unpublished_count": letters.unpublished_count,
        "enqueue": lambda: queue.enqueue(builders.pending()),
        "queued_requests": queue.queued_requests,
        "resolve": lambda: queue.resolve("key"),
        "stale_pending": lambda: queue.stale_pending(builders.CREATED_AT),
        "escalate": lambda: queue.escalate("key", builders.indeterminate()),
        "reconciliation counts": queue.counts,
        "first_seen": lambda: stores.dedup.first_seen("key"),
        "circuit load": lambda: stores.circuits.load("acme"),
        "circuit set": lambda: stores.circuits.compare_and_set("acme", Closed(), Closed(consecutive_failures=1)),
    }


def test_unreachable_server_is_an_error_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the server is down every operation says so and assumes nothing; afterwards all is as it was."""
    monkeypatch.setattr(redis_client, "_CONNECT_WAITS_S", ())
    with servers.RedisServer(tmp_path, appendfsync="always") as server:
        stores = backends.on_redis(server.url).storage
        claim = builders.admitted_and_claimed(stores.jobs, by=builders.lease(lease_ms=600_000))

        with server.down():
            silent = [name for name, operation in operations(stores, claim).items() if not is_unavailable(operation)]

        assert silent == []
        assert stores.jobs.counts(JobKind.SETTLEMENT).in_flight[JobState.LEASED] == 1
        assert stores.jobs.record_many([(claim, SETTLED)]) == [None]


def is_unavailable(operation: Callable[[], object]) -> bool:
    """Tell whether the operation raises as the protocol says."""
    try:
        operation()
    except StorageUnavailableError:
        return True
    return False


def test_killed_server_keeps_the_ledger(tmp_path: Path) -> None:
    """A server killed with SIGKILL comes back with rows, claims, dead letters and entries as they were recorded."""
    with servers.RedisServer(tmp_path, appendfsync="always") as server:
        stores = backends.on_redis(server.url).storage
        dead = builders.admitted_and_claimed(stores.jobs, builders.job("dead"))
        stores.jobs.record(dead, Bury(record=builders.dead_letter("dead")))
        waiting = builders.admitted_and_claimed(stores.jobs, builders.delivery_job())
        stores.jobs.record(waiting, Await(request=builders.pending()))
        running = builders.admitted_and_claimed(stores.jobs, by=builders.lease(lease_ms=600_000))

        server.restart()

        stores.jobs.record(running, SETTLED)
        assert stores.dead_letters.payload("dead") == builders.job().payload
        assert [row.job_id for row in stores.jobs.rows(JobState.AWAITING, 10)] == [waiting.job_id]
        assert list(stores.reconciliation.queued_requests()) == [builders.pending()]


class _DroppingHandler(socketserver.BaseRequestHandler):
    """Answer the greeting; drop the connection when a script is called."""

    scripts: list[bytes]

    def handle(self) -> None:
        while data := self.request.recv(65_536):
            if b"EVALSHA" in data:
                self.scripts.append(data)
                return
            self.request.sendall(b"+OK\r\n" * data.count(b"*"))


def test_write_whose_answer_was_lost_is_not_sent_again() -> None:
    """A connection that breaks after a command was sent is an error: the command may have been carried out."""
    calls: list[bytes] = []
    handler = type("Handler", (_DroppingHandler,), {"scripts": calls})
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        jobs = RedisJobStorage(redis_client.connect(f"redis://127.0.0.1:{server.server_address[1]}/0"))

        with pytest.raises(StorageUnavailableError):
            jobs.admit(builders.job())
        server.shutdown()

    assert len(calls) == 1


def test_idle_connection_that_the_server_closed_is_replaced(stores: bundle.Storage, raw: Any) -> None:
    """A connection that was closed while idle costs no failed operation."""
    stores.jobs.admit(builders.job())
    raw.client_kill_filter(_type="normal", skipme=True)

    assert stores.jobs.get("rcpt-1") is not None


@contextlib.contextmanager
def full(raw: Any) -> Iterator[None]:
    """Let the server refuse to take more memory inside the block."""
    raw.config_set("maxmemory", 1)
    try:
        yield
    finally:
        raw.config_set("maxmemory", 0)


def test_full_server_refuses_new_jobs_and_lets_old_ones_end(tmp_path: Path) -> None:
    """At the memory limit nothing is half admitted, and a job that is done can still be recorded as done."""
    with servers.RedisServer(tmp_path) as server, server.client() as raw:
        stores = backends.on_redis(server.url).storage
        claim = builders.admitted_and_claimed(stores.jobs)

        with full(raw):
            for refused in (
                lambda: stores.jobs.admit(builders.job("new")),
                lambda: stores.jobs.admit_many([builders.job("new")]),
                lambda: stores.jobs.record(claim, Reschedule(attempt=1, delay_ms=0, publishes=True)),
                lambda: stores.jobs.record(claim, Bury(record=builders.dead_letter())),
                lambda: stores.dedup.first_seen("key"),
            ):
                assert is_unavailable(refused)
            stores.jobs.record(claim, SETTLED)

        counts = stores.jobs.counts(JobKind.SETTLEMENT)
        assert (counts.admitted, counts.finished[FinishedAs.SETTLED], counts.dead) == (1, 1, 0)
        assert stores.jobs.admit(builders.job("new")) == Admitted()


def test_admission_waits_for_the_disk_when_asked(redis_url: str) -> None:
    """With `waitaof_ms` a job is admitted once the append-only file has it, alone and in a batch."""
    stores = backends.on_redis(redis_url, LedgerOptions(waitaof_ms=5_000)).storage

    assert stores.jobs.admit(builders.job("a")) == Admitted()
    assert stores.jobs.admit_many([builders.job("b"), builders.job("b")]) == [
        Admitted(),
        Duplicate(of=DuplicateOf.IN_LEDGER),
    ]


def test_admission_without_a_file_to_wait_for_is_an_error(tmp_path: Path) -> None:
    """A server that cannot say that the job is on disk is not believed to have kept it."""
    with servers.RedisServer(tmp_path, options={"appendonly": "no"}) as server:
        stores = backends.on_redis(server.url, LedgerOptions(waitaof_ms=1_000)).storage

        with pytest.raises(StorageUnavailableError, match="waitaof"):
            stores.jobs.admit(builders.job())


def test_namespaces_share_nothing(redis_url: str) -> None:
    """Two deployments on one server see neither each other's jobs nor each other's marks."""
    one, other = (backends.on_redis(redis_url, namespace=name).storage for name in ("one:", "other:"))
    one.jobs.admit(builders.job())

    assert other.jobs.get("rcpt-1") is None
    assert other.jobs.counts(JobKind.SETTLEMENT).admitted == 0
    assert other.jobs.admit(builders.job(payload=b"other")) == Admitted()


def test_payload_may_be_any_bytes(stores: bundle.Storage) -> None:
    """A payload comes back byte for byte."""
    payload = bytes(range(256)) + b"\r\n$-1\r\n" + "é".encode()
    stores.jobs.admit(builders.job(payload=payload))

    assert builders.claimed(stores.jobs).payload == payload


def test_row_without_its_payload_is_reported(stores: bundle.Storage, raw: Any) -> None:
    """A row whose payload somebody deleted is an invalid record, and stays unclaimed."""
    stores.jobs.admit(builders.job())
    raw.delete(KEYS.of(Key.PAYLOAD, "rcpt-1"))

    with pytest.raises(InvalidRecordError):
        stores.jobs.claim("rcpt-1", 0, builders.lease())

    assert [row.job_id for row in stores.jobs.rows(JobState.OUTSTANDING, 1)] == ["rcpt-1"]
    assert stores.jobs.cancel("rcpt-1") is True


TAMPERINGS: dict[str, Callable[[Any], object]] = {
    "broken bytes": lambda raw: raw.hset(KEYS.of(Key.DEAD), "rcpt-1", b"{"),
    "record of another receipt": lambda raw: raw.hset(
        KEYS.of(Key.DEAD), "rcpt-1", builders.dead_letter("other").canonical_json()
    ),
    "index tells another time": lambda raw: raw.zadd(KEYS.of(Key.DEAD_INDEX), {"rcpt-1": 1}),
    "index without a record": lambda raw: raw.hdel(KEYS.of(Key.DEAD), "rcpt-1"),
    "record without an index": lambda raw: raw.zrem(KEYS.of(Key.DEAD_INDEX), "rcpt-1"),
}


@pytest.mark.parametrize("tampering", TAMPERINGS)
def test_tampered_dead_letter_is_reported(stores: bundle.Storage, raw: Any, tampering: str) -> None:
    """A listing that is not what was stored is an error, never a shorter listing."""
    stores.dead_letters.append(builders.dead_letter())
    stores.dead_letters.append(builders.dead_letter("good"))
    TAMPERINGS[tampering](raw)

    with pytest.raises(InvalidRecordError):
        stores.dead_letters.list()


def test_broken_dead_letter_is_reported_alone(stores: bundle.Storage, raw: Any) -> None:
    """A record that does not decode is an error when it is asked for."""
    stores.dead_letters.append(builders.dead_letter())
    TAMPERINGS["broken bytes"](raw)

    with pytest.raises(InvalidRecordError, match="rcpt-1"):
        stores.dead_letters.get("rcpt-1")


def test_broken_dead_letter_does_not_block_the_feed(redis_url: str, raw: Any) -> None:
    """The records beside a broken one are published; the broken one stays owed and is reported once it is alone."""
    backend = backends.on_redis(redis_url)
    letters = backend.storage.dead_letters
    for name in ("rcpt-1", "good"):
        letters.append(builders.dead_letter(name))
    TAMPERINGS["broken bytes"](raw)
    backend.travel(60_000)

    assert list(letters.take_unpublished(10, 1_000)) == [builders.dead_letter("good")]
    letters.published("good")
    backend.travel(60_000)
    with pytest.raises(InvalidRecordError):
        letters.take_unpublished(10, 1_000)
    assert letters.unpublished_count() == 1


def test_broken_reconciliation_entry_is_reported(stores: bundle.Storage, raw: Any) -> None:
    """An entry that does not decode is an error, not a shorter queue."""
    stores.reconciliation.enqueue(builders.pending())
    raw.hset(KEYS.of(Key.RECONCILE), builders.pending().idempotency_key, b"{")

    with pytest.raises(InvalidRecordError):
        stores.reconciliation.queued_requests()
    with pytest.raises(InvalidRecordError):
        stores.reconciliation.stale_pending(builders.CREATED_AT)


def test_broken_circuit_is_reported(stores: bundle.Storage, raw: Any) -> None:
    """A state that does not decode is an error, not a closed circuit."""
    raw.set(KEYS.of(Key.CIRCUIT, "acme"), b'{"state":"ajar"}')

    with pytest.raises(InvalidRecordError, match="acme"):
        stores.circuits.load("acme")


def test_row_stays_small(stores: bundle.Storage, raw: Any) -> None:
    """A claimed row is one compact listpack; with its mark it takes under 700 bytes beside the payload."""
    builders.admitted_and_claimed(stores.jobs, by=builders.lease(owner="worker-7@host.example:4711", token="t" * 32))

    row, mark = KEYS.of(Key.JOB, "rcpt-1"), KEYS.of(Key.SEEN, "rcpt-1")
    assert raw.object("encoding", row) == b"listpack"
    assert raw.memory_usage(row) + raw.memory_usage(mark) < 700


def test_dedup_mark_stays_small(stores: bundle.Storage, raw: Any) -> None:
    """What is kept of a settled job takes at most 120 bytes."""
    stores.jobs.record(builders.admitted_and_claimed(stores.jobs), SETTLED)

    left = {key.decode() for key in raw.scan_iter()}
    mark = KEYS.of(Key.SEEN, "rcpt-1")
    assert left == {mark, KEYS.of(Key.COUNTS, JobKind.SETTLEMENT), KEYS.of(Key.WATERMARKS)}
    assert raw.memory_usage(mark) <= 120
    assert 172_700 < raw.ttl(mark) <= 172_800
