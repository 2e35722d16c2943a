"""The command line against a real server."""

import json
from pathlib import Path

import pytest

from tests.support.cli_process import chio_worker
from tests.support.observations import observation
from tests.support.servers import RedisServer

pytestmark = pytest.mark.server


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
    """On a server that forgets keys and writes no append-only file, doctor ends with 1 and the two sentences to do."""
    with RedisServer(tmp_path / "redis", options={"appendonly": "no", "maxmemory-policy": "allkeys-lru"}) as server:
        answer = chio_worker(tmp_path, server.url, "doctor")

    assert answer.returncode == 1
    assert b"maxmemory-policy noeviction" in answer.stdout
    assert b"appendonly yes" in answer.stdout
    assert b"a worker refuses to start" in answer.stdout


def test_server_that_goes_away_is_one_sentence(tmp_path: Path) -> None:
    """A command whose server was killed ends with 2 and no traceback."""
    with RedisServer(tmp_path / "redis") as server:
        url = server.url

    answer = chio_worker(tmp_path, url, "enqueue", "settlement", "-", stdin=lines(1))

    assert answer.returncode == 2
    assert b"the store did not answer" in answer.stderr
    assert b"Traceback" not in answer.stderr
