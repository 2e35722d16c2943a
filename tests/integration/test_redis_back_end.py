"""What is Redis' own among the stores when all is well: exchanges, scripts, namespaces, bytes."""

from collections.abc import Callable
from typing import Any

import pytest
import redis

from storage import bundle, dedup_mark
from storage.jobs import (
    Admitted,
    Bury,
    Claim,
    Conflict,
    Duplicate,
    DuplicateOf,
    Finish,
    FinishedAs,
    JobKind,
)
from storage.keys import Key, Keys
from tests.support import backends, builders

pytestmark = pytest.mark.server

KEYS = Keys(backends.NAMESPACE)
SETTLED = Finish(finished_as=FinishedAs.SETTLED)


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
    warm = [answer for answer in jobs.claim_many([("warm", 0)], builders.lease()) if isinstance(answer, Claim)]
    jobs.record_many([(claim, SETTLED) for claim in warm])
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


def test_namespaces_share_nothing(redis_url: str) -> None:
    """Two deployments on one server see neither each other's jobs nor each other's marks."""
    one, other = (backends.on_redis(redis_url, namespace=name).storage for name in ("one:", "other:"))
    one.jobs.admit(builders.job())

    assert other.jobs.get("rcpt-1") is None
    assert other.jobs.counts(JobKind.SETTLEMENT).admitted == 0
    assert other.jobs.admit(builders.job(payload=b"other")) == Admitted()


def test_turns_may_be_less_than_a_millisecond_apart(stores: bundle.Storage, raw: Any) -> None:
    """Four thousand a second: sixteen turns after the first span four milliseconds, not none."""
    turn = KEYS.of(Key.GATE_TURN, "acme")
    stores.gates.turn_ms("acme", 60_000, 0.25)
    first = float(raw.get(turn))

    for _ in range(16):
        stores.gates.turn_ms("acme", 1, 0.25)

    assert float(raw.get(turn)) - first == 4


def test_payload_may_be_any_bytes(stores: bundle.Storage) -> None:
    """A payload comes back byte for byte."""
    payload = bytes(range(256)) + b"\r\n$-1\r\n" + "é".encode()
    stores.jobs.admit(builders.job(payload=payload))

    assert builders.claimed(stores.jobs).payload == payload


def test_row_stays_small(stores: bundle.Storage, raw: Any) -> None:
    """With its mark a claimed row takes under 600 bytes beside the payload."""
    builders.admitted_and_claimed(stores.jobs, by=builders.lease(owner="worker-7@host.example:4711", token="t" * 32))

    row, mark = KEYS.of(Key.JOB, "rcpt-1"), KEYS.of(Key.SEEN, "rcpt-1")
    assert raw.memory_usage(row) + raw.memory_usage(mark) < 600


def test_admission_marks_the_id_for_the_window(stores: bundle.Storage, raw: Any) -> None:
    """The mark is set together with the row and expires after the window."""
    stores.jobs.admit(builders.job())

    assert 172_700 < raw.ttl(KEYS.of(Key.SEEN, "rcpt-1")) <= 172_800


def test_cleared_dead_letter_leaves_no_key(stores: bundle.Storage, raw: Any) -> None:
    """Nothing of a job that died and was cleared stays on the server but its counters."""
    stores.jobs.record(builders.admitted_and_claimed(stores.jobs), Bury(record=builders.dead_letter()))

    stores.dead_letters.clear("rcpt-1")

    left = {key.decode() for key in raw.scan_iter()}
    assert left == {KEYS.of(Key.COUNTS, JobKind.SETTLEMENT), KEYS.of(Key.WATERMARKS)}


def test_dedup_mark_stays_small(stores: bundle.Storage, raw: Any) -> None:
    """What is kept of a settled job is half a digest and two letters, at most 120 bytes with its key."""
    stores.jobs.record(builders.admitted_and_claimed(stores.jobs), SETTLED)

    left = {key.decode() for key in raw.scan_iter()}
    mark = KEYS.of(Key.SEEN, "rcpt-1")
    assert left == {mark, KEYS.of(Key.COUNTS, JobKind.SETTLEMENT), KEYS.of(Key.WATERMARKS)}
    assert raw.get(mark) == dedup_mark.mark_of(builders.job().digest, FinishedAs.SETTLED)
    assert (raw.strlen(mark), raw.memory_usage(mark) <= 120) == (18, True)
    assert 172_700 < raw.ttl(mark) <= 172_800


def test_jobs_that_ended_leave_their_mark_alone(stores: bundle.Storage, raw: Any) -> None:
    """Of a job that ended well, alone or in a batch, neither row nor payload stays on the server."""
    stores.jobs.admit_many([builders.job(name) for name in ("a", "b", "c")])
    stores.jobs.record(builders.claimed(stores.jobs, "a"), SETTLED)
    stores.jobs.record_many([(builders.claimed(stores.jobs, name), SETTLED) for name in ("b", "c")])

    kept = {key.decode() for key in raw.scan_iter(f"{backends.NAMESPACE}*:[abc]")}

    assert kept == {f"{backends.NAMESPACE}seen:{name}" for name in "abc"}
