"""
The shipped users do their work with what `deploy/redis/users.acl` gives them, and nothing beyond it.

One deployment runs under these users: whatever the server refused to one of them while it did its work is a right that
is missing. Another server, on which nobody works, is for trying what they may not do.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import celery
import pytest
import redis
from kombu.connection import Connection

from storage.keys import Key
from tasks import names
from tests.support import fleet as fleets
from tests.support import observations, secured
from tests.support.cli_process import chio_worker
from tests.support.fleet import Fleet
from tests.support.flower import Flower
from tests.support.secured import SecuredServer, User
from tests.support.worker_process import ROOT, CelerySubprocess, poll

pytestmark = [pytest.mark.server, pytest.mark.process]

LIMIT_S: Final = 90.0
PREFIX: Final = "chio:broker:"
FEED: Final = f"{PREFIX}{names.DEAD_LETTER_QUEUE}"
KEPT: Final = ("chio:by-script", "chio:by-script-too", "chio:by-transaction", "chio:by-transaction-too")
PIDBOX: Final = f"{PREFIX}/0.celery.pidbox"

#: What nobody may do, whoever logs in.
FORBIDDEN_TO_ALL: Final = (
    "FLUSHALL",
    "FLUSHDB",
    "CONFIG GET *",
    "CONFIG SET appendonly no",
    "CONFIG REWRITE",
    "ACL LIST",
    "ACL SETUSER x on",
    "SHUTDOWN NOSAVE",
    "SAVE",
    "BGREWRITEAOF",
    "REPLICAOF 127.0.0.1 1",
    "CLIENT LIST",
    "CLIENT KILL TYPE normal",
    "MONITOR",
    "KEYS *",
    "SCAN 0",
    "RANDOMKEY",
    "SCRIPT FLUSH",
    "FUNCTION LIST",
    "MODULE LIST",
    "SWAPDB 0 1",
    "EVAL return{} 0",
    f"LRANGE {PREFIX}settlement 0 -1",
    "GET other:key",
    "SET other:key value",
    "DEL other:key",
    "LPUSH other:queue message",
    "PUBLISH other:channel message",
)
#: What one of them may not do, though another may.
FORBIDDEN: Final[dict[User, tuple[str, ...]]] = {
    "worker": ("PUBLISH chio:broker:/1.celery.pidbox x", "PSUBSCRIBE *"),
    "producer": (
        f"RPOP {PREFIX}settlement",
        f"BRPOP {PREFIX}settlement 1",
        f"DEL {PREFIX}settlement",
        f"LPUSH {PREFIX}housekeeping x",
        f"LPUSH {FEED} x",
        f"SADD {PREFIX}_kombu.binding.celery.pidbox x",
        f"PUBLISH {PIDBOX} x",
        "GET chio:payload:r-1",
        "GET chio:job:r-1",
        "INFO",
        "EVALSHA 0 0",
        "SCRIPT LOAD return",
    ),
    "operator": (
        f"RPOP {PREFIX}settlement",
        f"BRPOP {PREFIX}delivery 1",
        f"RPOP {FEED}",
        f"HDEL {PREFIX}unacked x",
        f"PSUBSCRIBE {PIDBOX}",
        f"PUBLISH {PREFIX}/0.celeryev/x x",
    ),
    "flower": (
        f"RPOP {PREFIX}settlement",
        f"LPUSH {PREFIX}settlement x",
        f"DEL {PREFIX}settlement",
        "GET chio:job:r-1",
        "GET chio:payload:r-1",
        "LLEN other:queue",
        "INFO",
    ),
    "beat": (
        f"LPUSH {PREFIX}settlement x",
        f"RPOP {PREFIX}housekeeping",
        "GET chio:job:r-1",
        "GET chio:payload:r-1",
        "INFO",
    ),
    "reader": (
        f"LPUSH {FEED} x",
        f"RPOP {PREFIX}settlement",
        "HGET chio:dead r-1",
        f"PUBLISH {PIDBOX} x",
        "INFO",
    ),
}


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredServer]:
    """Run a server on which nobody works."""
    with SecuredServer(tmp_path_factory.mktemp("bare")) as server:
        yield server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredServer]:
    """Run the deployment's server."""
    with SecuredServer(tmp_path_factory.mktemp("secured")) as server:
        yield server


@pytest.fixture(scope="module")
def fleet(server: SecuredServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Run a deployment whose worker logs in as `worker` and tells events."""
    directory = tmp_path_factory.mktemp("fleet")
    settings = {"CHIO_SEND_TASK_EVENTS": "true", "CHIO_SETTLEMENT_MAX_RETRIES": "1"}
    with fleets.running(directory, server.url_for("worker"), settings=settings) as fleet:
        fleet.worker().wait_until_ready()
        yield fleet


def refused_to(server: SecuredServer, user: User) -> set[tuple[str, str]]:
    """Return what the server refused to this user."""
    return {(reason, what) for who, reason, what in server.refused() if who == user}


@pytest.mark.parametrize("user", secured.USERS)
def test_nobody_may_do_what_only_an_administrator_does(bare: SecuredServer, user: User) -> None:
    """No shipped user can empty, configure, spy on or stop the server, or touch a key that is not ours."""
    with bare.client_of(user) as client:
        allowed = {command for command in FORBIDDEN_TO_ALL if not secured.is_denied(client, *command.split())}

    assert allowed == set()


@pytest.mark.parametrize("user,command", [(user, command) for user in FORBIDDEN for command in FORBIDDEN[user]])
def test_no_user_may_do_the_work_of_another(bare: SecuredServer, user: User, command: str) -> None:
    """Each user is refused what only another one needs."""
    with bare.client_of(user) as client:
        assert secured.is_denied(client, *command.split())


@pytest.mark.parametrize("command", ["PING", "INFO", "GET chio:application", "LPUSH chio:broker:settlement x"])
def test_a_stranger_gets_nothing(bare: SecuredServer, command: str) -> None:
    """Without a name, or with a wrong password, every command is answered with an error."""
    with bare.client() as nobody, pytest.raises(redis.AuthenticationError, match="required"):
        nobody.execute_command(*command.split())
    with (
        bare.client(username="worker", password="guess") as liar,
        pytest.raises(redis.AuthenticationError, match="invalid"),
    ):
        liar.execute_command(*command.split())


@pytest.mark.parametrize("login", [("default", ""), ("default", "guess"), ("", "")])
def test_nobody_logs_in_as_the_default_user(bare: SecuredServer, login: tuple[str, str]) -> None:
    """The user that reads the append-only file has every right, and no connection can be it."""
    with bare.client() as nobody, pytest.raises(redis.AuthenticationError):
        nobody.execute_command("AUTH", *login)
    with bare.client() as nobody, pytest.raises(redis.AuthenticationError):
        nobody.execute_command("KEYS", "*")


@pytest.mark.parametrize("program", ["packaged", "redis-server"])
def test_a_restart_keeps_what_scripts_and_transactions_wrote(tmp_path: Path, program: str) -> None:
    """What a worker wrote in a script or a transaction is there again after the server starts from its file."""
    binary = None if program == "packaged" else secured.installed_redis()
    with SecuredServer(tmp_path, binary=binary) as server:
        with server.client_of("worker") as client:
            client.evalsha(
                client.script_load("redis.call('set', KEYS[1], 1); redis.call('set', KEYS[2], 1)"), 2, *KEPT[:2]
            )
            client.pipeline(transaction=True).set(KEPT[2], 1).set(KEPT[3], 1).execute()
        server.stop()
        server.start()

        with server.client_of("worker") as client:
            assert client.exists(*KEPT) == len(KEPT)


@pytest.mark.parametrize("user", ["worker", "operator"])
def test_every_command_of_every_script_is_allowed(bare: SecuredServer, user: User) -> None:
    """Whoever runs the ledger's scripts has each command that stands in one of them."""
    scripts = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "storage/lua").glob("*.lua"))
    used = {command.lower() for command in re.findall(r"redis\.p?call\(\s*['\"]([A-Za-z]+)['\"]", scripts)}
    with bare.client_of("admin") as admin:
        rights = admin.acl_getuser(user)["commands"]

    assert len(used) > 20
    assert used - {right.removeprefix("+") for right in rights} == set()


def test_no_key_of_the_ledger_looks_like_the_brokers() -> None:
    """The operator's rights tell ledger and broker apart by the first letter of a key."""
    assert [key for key in Key if key.suffix.startswith("b")] == []


def test_the_worker_settles_retries_and_buries(fleet: Fleet, server: SecuredServer) -> None:
    """A worker settles, retries, and stores and publishes a dead letter; nothing it needs is refused."""
    fleet.enqueue("settled")
    fleet.enqueue("retried", tool="rail.fail-once")
    fleet.enqueue("dead", tool="rail.always-503")
    fleet.wait_until_idle()

    poll(lambda: fleet.storage.dead_letters.unpublished_count() == 0, LIMIT_S, "the dead letter to be published")
    assert (sum(fleet.counts().finished.values()), fleet.counts().dead) == (2, 1)
    assert refused_to(server, "worker") == set()


def test_a_producer_sends_by_task_name(fleet: Fleet, server: SecuredServer) -> None:
    """A foreign producer's observation is settled; it needs two queues to write to and nothing else."""
    producer = celery.Celery("foreign", broker=server.url_for("producer"), set_as_current=False)
    producer.conf.broker_transport_options = {"global_keyprefix": PREFIX}
    wire = observations.observation(receipt_id="foreign", tool_name="search.query").to_wire()
    producer.send_task(names.OBSERVE_SETTLEMENT, kwargs={"observation": wire}, queue="settlement")
    producer.close()

    poll(lambda: fleet.effects("foreign") == 1, LIMIT_S, "the observation to be settled")
    assert refused_to(server, "producer") == set()


def test_an_operator_runs_every_command(fleet: Fleet, server: SecuredServer, tmp_path: Path) -> None:
    """Enqueue, status, dead letters with replay, hold and cancel, quarantine and doctor work for the operator."""

    def run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return chio_worker(tmp_path, server.url_for("operator"), *arguments, stdin=stdin)

    lines = [fleets.observation(name, "rail.always-503").canonical_json() for name in ("op-1", "op-2")]
    answers = [run("enqueue", "settlement", "-", stdin=b"\n".join(lines))]
    fleet.wait_until_idle()
    listed = json.loads(run("dead-letters", "list", "--json").stdout)
    answers += [run("dead-letters", "show", "op-1"), run("dead-letters", "replay", "op-1", "--yes")]
    fleet.wait_until_idle()
    answers += [run("dead-letters", "clear", "op-2", "--yes")]
    answers += [run("status"), run("jobs", "list", "parked"), run("quarantine", "list"), run("reconciliation", "list")]
    answers += [run("doctor")]

    assert [(answer.args[1:], answer.stderr) for answer in answers if answer.returncode] == []
    assert {"op-1", "op-2"} <= {record["receipt_id"] for record in listed["records"]}
    assert refused_to(server, "operator") == set()


def test_beat_ticks(server: SecuredServer, tmp_path: Path) -> None:
    """Beat sends its ticks and answers the operator's ping."""
    environ = {"CHIO_REDIS_URL": server.url_for("beat"), "CHIO_ESCALATION_PERIOD_S": "1"}
    with CelerySubprocess(tmp_path, environ, "beat") as beat:
        poll(lambda: "Sending due task" in beat.log_text(), LIMIT_S, "a tick")
        poll(lambda: _doctor_finds(tmp_path, server) == [], LIMIT_S, "doctor to see one beat")

    assert refused_to(server, "beat") == set()
    assert refused_to(server, "operator") == set()


def _doctor_finds(tmp_path: Path, server: SecuredServer) -> list[str]:
    answer = chio_worker(tmp_path, server.url_for("operator"), "doctor", "--json")
    return [finding["check"] for finding in json.loads(answer.stdout)["findings"]]


def test_flower_shows_workers_and_queues(fleet: Fleet, server: SecuredServer, tmp_path: Path) -> None:
    """Flower hears events, asks workers and counts queues under its own user."""
    flower = Flower(tmp_path, server.url_for("flower"))
    with flower.process:
        poll(lambda: flower.get("/workers")[0] == 200, LIMIT_S, "Flower to answer")
        poll(lambda: "w0@" in flower.get("/api/workers?refresh=1")[1], LIMIT_S, "Flower to see the worker")
        fleet.enqueue("seen")
        poll(lambda: "seen" in flower.get("/api/tasks")[1], LIMIT_S, "Flower to see the task")
        broker_page = flower.get("/broker")

    assert "settlement" in broker_page[1]
    assert refused_to(server, "flower") == set()


def test_a_reader_takes_dead_letters(fleet: Fleet, server: SecuredServer) -> None:
    """Another system reads the dead-letter queue with kombu alone, and can do nothing else."""
    fleet.enqueue("unlucky", tool="rail.always-503")
    fleet.wait_until_idle()
    options = {"global_keyprefix": PREFIX}
    found = set()
    with Connection(server.url_for("reader"), transport_options=options) as connection:
        queue = connection.SimpleQueue(names.DEAD_LETTER_QUEUE, no_ack=True)
        while "unlucky" not in found:
            found.add(queue.get(timeout=LIMIT_S).payload["receipt_id"])

    assert refused_to(server, "reader") == set()


def test_a_worker_of_the_wrong_user_does_not_start(server: SecuredServer, tmp_path: Path) -> None:
    """A worker that logs in as somebody without its rights ends with code 2 and a sentence that names the cause."""
    with CelerySubprocess(tmp_path, {"CHIO_REDIS_URL": server.url_for("beat")}, "worker") as worker:
        assert worker.wait(LIMIT_S) == 2

    assert "check user and password in CHIO_REDIS_URL" in worker.log_text()


def test_a_command_with_a_wrong_password_is_one_sentence(server: SecuredServer, tmp_path: Path) -> None:
    """A command whose user is refused ends with code 2, says what to check, and repeats no password."""
    url = server.url_for("operator").replace("password-of-operator", "secret-guess")

    answer = chio_worker(tmp_path, url, "status")

    assert answer.returncode == 2
    assert b"check user and password in CHIO_REDIS_URL" in answer.stderr
    assert b"Traceback" not in answer.stderr
    assert b"secret-guess" not in answer.stderr
