"""The command line against a real server."""

import json
from pathlib import Path
from typing import Final

import pytest

from tests.support.cli_process import chio_worker
from tests.support.observations import observation
from tests.support.servers import RedisServer

pytestmark = pytest.mark.server

#: A container's server as it comes, with the eviction that caches are given.
STOCK: Final = {"appendonly": "no", "maxmemory-policy": "allkeys-lru"}
FORGETS_KEYS: Final = (
    "The ledger's server forgets keys when it is full (maxmemory-policy allkeys-lru):"
    " set `maxmemory-policy noeviction` in its configuration."
)
WRITES_NO_FILE: Final = (
    "The ledger's server writes no append-only file, so a restart of it loses what it holds:"
    " set `appendonly yes` in its configuration, or CHIO_ALLOW_NO_APPEND_ONLY=true to accept the loss."
)


def lines(count: int) -> bytes:
    """Return so many different observations, one a line."""
    return b"".join(observation(receipt_id=f"r-{number}").canonical_json() + b"\n" for number in range(count))


def test_enqueued_lines_are_counted_by_status(tmp_path: Path, redis_url: str) -> None:
    """More than a batch of lines goes in, the same input again is all duplicates, and status counts both."""
    first = chio_worker(tmp_path, redis_url, "enqueue", "settlement", "-", "--json", stdin=lines(1_201))
    again = chio_worker(tmp_path, redis_url, "enqueue", "settlement", "-", "--json", stdin=lines(1_201))
    status = json.loads(chio_worker(tmp_path, redis_url, "status", "--json").stdout)

    assert json.loads(first.stdout)["admitted"] == 1_201
    assert json.loads(again.stdout)["duplicates"] == 1_201
    assert (first.returncode, again.returncode) == (0, 0)
    settlement = status["kinds"]["settlement"]
    assert (settlement["admitted"], settlement["in_flight"], settlement["duplicates"]) == (1_201, 1_201, 1_201)
    assert status["balanced"]


def test_doctor_is_content_with_a_sound_server(tmp_path: Path, redis_url: str) -> None:
    """On a server with an append-only file and without eviction a worker may start; a missing beat is a warning."""
    answer = chio_worker(tmp_path, redis_url, "doctor", "--json")

    document = json.loads(answer.stdout)
    assert (answer.returncode, document["safe"]) == (0, True)
    assert [finding["check"] for finding in document["findings"]] == ["beat"]


def test_doctor_says_what_to_change(tmp_path: Path) -> None:
    """A server set up as a stock container and told to evict is refused with exactly the two sentences that mend it."""
    with RedisServer(tmp_path / "redis", options=STOCK) as server:
        shown = chio_worker(tmp_path, server.url, "doctor")
        answer = chio_worker(tmp_path, server.url, "doctor", "--json")

    document = json.loads(answer.stdout)
    assert (shown.returncode, answer.returncode, document["safe"]) == (1, 1, False)
    assert b"a worker refuses to start" in shown.stdout
    unsafe = [finding["sentence"] for finding in document["findings"] if finding["severity"] == "unsafe"]
    assert unsafe == [FORGETS_KEYS, WRITES_NO_FILE]


def test_doctor_is_content_once_its_sentences_are_heeded(tmp_path: Path) -> None:
    """What the two sentences tell to set is all that a stock server needs."""
    with RedisServer(tmp_path / "redis", options=STOCK) as server, server.client() as client:
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("appendonly", "yes")

        answer = chio_worker(tmp_path, server.url, "doctor", "--json")

    assert (answer.returncode, json.loads(answer.stdout)["safe"]) == (0, True)


def test_server_that_goes_away_is_one_sentence(tmp_path: Path) -> None:
    """A command whose server was killed ends with 2 and no traceback."""
    with RedisServer(tmp_path / "redis") as server:
        url = server.url

    answer = chio_worker(tmp_path, url, "enqueue", "settlement", "-", stdin=lines(1))

    assert answer.returncode == 2
    assert b"the store did not answer" in answer.stderr
    assert b"Traceback" not in answer.stderr
