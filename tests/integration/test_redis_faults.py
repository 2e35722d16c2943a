"""Lost servers, lost answers, full memory: what the Redis stores do when the server lets them down."""

import socketserver
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reliability.circuit import Closed
from reliability.errors import StorageUnavailableError
from storage import bundle, redis_client
from storage.gates import GateLimits
from storage.jobs import (
    Admitted,
    Await,
    Bury,
    Claim,
    Duplicate,
    DuplicateOf,
    Finish,
    FinishedAs,
    JobKind,
    JobState,
    Reschedule,
)
from storage.options import LedgerOptions
from storage.redis_jobs import RedisJobStorage
from tests.support import backends, builders, servers

pytestmark = pytest.mark.server

SETTLED = Finish(finished_as=FinishedAs.SETTLED)


def operations(stores: bundle.Storage, claim: Claim) -> dict[str, Callable[[], object]]:
    """Return one call of every operation of every store."""
    jobs, letters, queue = stores.jobs, stores.dead_letters, stores.reconciliation
    return {
        "admit": lambda: jobs.admit(builders.job("new")),
        "admit_many": lambda: jobs.admit_many([builders.job("new")]),
        "admit_and_claim": lambda: jobs.admit_and_claim(builders.job("new"), builders.lease()),
        "claim": lambda: jobs.claim("rcpt-1", 0, builders.lease()),
        "claim_many": lambda: jobs.claim_many([("rcpt-1", 0)], builders.lease()),
        "finalized_at_many": lambda: jobs.finalized_at_many(["rcpt-1"]),
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
        "check_writable": jobs.check_writable,
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
        "circuit load many": lambda: stores.circuits.load_many(["acme", "other"]),
        "gate enter many": lambda: stores.gates.enter_many([("acme", token, GateLimits()) for token in "ab"]),
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


def test_full_server_refuses_new_jobs_and_lets_old_ones_end(tmp_path: Path) -> None:
    """At the memory limit nothing is half admitted, and a job that is done can still be recorded as done."""
    with servers.RedisServer(tmp_path) as server:
        stores = backends.on_redis(server.url).storage
        claim = builders.admitted_and_claimed(stores.jobs)

        with server.full():
            for refused in (
                lambda: stores.jobs.admit(builders.job("new")),
                lambda: stores.jobs.admit_many([builders.job("new")]),
                lambda: stores.jobs.record(claim, Reschedule(attempt=1, delay_ms=0, publishes=True)),
                lambda: stores.jobs.record(claim, Bury(record=builders.dead_letter())),
                lambda: stores.dedup.first_seen("key"),
                stores.jobs.check_writable,
            ):
                assert is_unavailable(refused)
            stores.jobs.record(claim, SETTLED)

        counts = stores.jobs.counts(JobKind.SETTLEMENT)
        assert (counts.admitted, counts.finished[FinishedAs.SETTLED], counts.dead) == (1, 1, 0)
        assert stores.jobs.admit(builders.job("new")) == Admitted()


def test_a_full_server_ends_many_whole_and_begins_none(tmp_path: Path) -> None:
    """Many jobs that are done end with what is remembered of them; one that cannot be claimed stays where it was."""
    with servers.RedisServer(tmp_path) as server:
        stores = backends.on_redis(server.url).storage
        ended = [builders.admitted_and_claimed(stores.jobs, builders.job(name)) for name in "ab"]
        stores.jobs.admit(builders.job("waits"))

        with server.full():
            answers = stores.jobs.record_many([(claim, SETTLED) for claim in ended])
            (refused,) = stores.jobs.claim_many([("waits", 0)], builders.lease())

        assert answers == [None, None]
        assert isinstance(refused, StorageUnavailableError)
        assert [stores.jobs.ending(name) for name in "ab"] == ["settled", "settled"]
        assert stores.jobs.admit(builders.job("a")) == Duplicate(of=DuplicateOf.FINISHED)
        counts = stores.jobs.counts(JobKind.SETTLEMENT)
        assert (counts.in_flight[JobState.OUTSTANDING], counts.in_flight[JobState.LEASED]) == (1, 0)
        assert [row.job_id for row in stores.jobs.rows(JobState.OUTSTANDING, 10)] == ["waits"]
        assert isinstance(stores.jobs.claim("waits", 0, builders.lease()), Claim)


def test_a_server_that_takes_writes_is_told_from_a_replica(tmp_path: Path) -> None:
    """A replica still answers all questions and is no ledger; asking leaves nothing behind."""
    with servers.RedisServer(tmp_path) as server, server.client() as raw:
        stores = backends.on_redis(server.url).storage
        stores.jobs.check_writable()

        raw.replicaof("127.0.0.1", 1)
        assert is_unavailable(stores.jobs.check_writable)
        raw.replicaof("NO", "ONE")

        stores.jobs.check_writable()
        assert raw.keys("*writable*") == []


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
