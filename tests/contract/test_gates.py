"""What `GateStorage` promises."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import pytest

from storage.gates import FULL_WAIT_MS, STOPPED_WAIT_MS, GateLimits, GateWait, HeldBy
from tests.support.backends import Backend

OPEN = GateLimits(endpoint="here")
TWO_AT_ONCE = GateLimits(max_concurrent=2, entry_lease_ms=60_000)
FOUR_A_SECOND = GateLimits(max_per_second=4)
FULL = GateWait(why=HeldBy.FULL, wait_ms=FULL_WAIT_MS)
STOPPED = GateWait(why=HeldBy.STOPPED, wait_ms=STOPPED_WAIT_MS)


def held(backend: Backend, limits: GateLimits = OPEN, partner_id: str = "acme") -> GateWait:
    """Ask to enter, which has to be refused."""
    answer = backend.storage.gates.enter(partner_id, "asks", limits)
    assert answer is not None
    return answer


def test_partner_without_bounds_lets_everything_in(backend: Backend) -> None:
    """Without bounds nothing is ever held back."""
    answers = [backend.storage.gates.enter("acme", f"t{number}", OPEN) for number in range(100)]

    assert answers == [None] * 100


def test_so_many_at_once_and_no_more(backend: Backend) -> None:
    """Past the bound a delivery asks again a moment later; another partner has places of its own."""
    gates = backend.storage.gates

    assert [gates.enter("acme", token, TWO_AT_ONCE) for token in "abc"] == [None, None, FULL]
    assert gates.enter("other", "d", TWO_AT_ONCE) is None


def test_a_place_that_is_left_is_free(backend: Backend) -> None:
    """Leaving gives one place back, however often it is said; who was never inside gives none."""
    gates = backend.storage.gates
    for token in "ab":
        gates.enter("acme", token, TWO_AT_ONCE)

    for token in ("a", "a", "stranger"):
        gates.leave("acme", token)

    assert [gates.enter("acme", token, TWO_AT_ONCE) for token in "cd"] == [None, FULL]


def test_many_enter_in_order(backend: Backend) -> None:
    """Each is answered as alone, partners side by side; nobody asks, nobody is answered."""
    gates = backend.storage.gates
    entries = [("acme", "a", TWO_AT_ONCE), ("other", "b", OPEN), ("acme", "c", TWO_AT_ONCE), ("acme", "d", TWO_AT_ONCE)]

    assert gates.enter_many(entries) == [None, None, None, FULL]
    assert gates.enter_many([]) == []


def test_many_places_are_left_at_once(backend: Backend) -> None:
    """Every named place is free again, and leaving none changes nothing."""
    gates = backend.storage.gates
    gates.enter_many([("acme", token, TWO_AT_ONCE) for token in "ab"])

    gates.leave("acme")
    still_full = gates.enter("acme", "c", TWO_AT_ONCE)
    gates.leave("acme", "a", "b", "stranger")

    assert still_full == FULL
    assert gates.enter_many([("acme", token, TWO_AT_ONCE) for token in "de"]) == [None, None]


def test_a_place_that_is_not_left_is_given_up(backend: Backend) -> None:
    """The place of a worker that died is free again after the entry's lease, and not before."""
    gates = backend.storage.gates
    for token in "ab":
        gates.enter("acme", token, TWO_AT_ONCE)

    backend.travel(30_000)
    early = gates.enter("acme", "c", TWO_AT_ONCE)
    backend.travel(30_000)

    assert early == FULL
    assert gates.enter("acme", "c", TWO_AT_ONCE) is None


def test_of_many_callers_as_many_enter_as_may(backend: Backend) -> None:
    """Of 16 that ask at once exactly two get in."""
    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(lambda n: backend.storage.gates.enter("acme", f"t{n}", TWO_AT_ONCE), range(16)))

    assert answers.count(None) == 2
    assert answers.count(FULL) == 14


def test_a_burst_of_one_second_then_the_steady_rate(backend: Backend) -> None:
    """One second's worth goes out at once; the next waits for no longer than the steady rate asks."""
    entered = [backend.storage.gates.enter("acme", f"t{number}", FOUR_A_SECOND) for number in range(4)]
    late = held(backend, FOUR_A_SECOND)

    assert entered == [None] * 4
    assert late.why is HeldBy.RATE
    assert 250 - backend.slack_ms <= late.wait_ms <= 250


def test_a_refused_delivery_takes_nothing_from_the_rate(backend: Backend) -> None:
    """After the wait one goes out, however many were refused meanwhile."""
    for number in range(4):
        backend.storage.gates.enter("acme", f"t{number}", FOUR_A_SECOND)
    waits = [held(backend, FOUR_A_SECOND).wait_ms for _ in range(3)]

    backend.travel(max(waits))

    assert backend.storage.gates.enter("acme", "next", FOUR_A_SECOND) is None


def test_turns_are_apart(backend: Backend) -> None:
    """Each delivery that waits gets a turn of its own, at least the wait from now and the spacing from the others."""
    delays = [backend.storage.gates.turn_ms("acme", 60_000, 20_000) for _ in range(3)]

    assert delays[0] == 60_000
    assert all(later - earlier >= 20_000 - backend.slack_ms for earlier, later in itertools.pairwise(delays))
    assert delays == sorted(delays)


@pytest.mark.parametrize(
    "limits, interval_ms",
    [
        pytest.param(GateLimits(), 20, id="by default 50 a second"),
        pytest.param(GateLimits(max_per_second=500), 2, id="at the partner's rate"),
        pytest.param(GateLimits(max_per_second=0.5), 2_000, id="no faster than the partner's rate"),
        pytest.param(GateLimits(max_per_second=500, max_returns_per_second=100), 10, id="at their own rate"),
        pytest.param(GateLimits(max_returns_per_second=4_000), 0.25, id="faster than by default"),
    ],
)
def test_those_held_back_come_again_at_a_rate(limits: GateLimits, interval_ms: float) -> None:
    """What was held back is worked off as fast as the partner takes it, and no faster."""
    assert limits.return_interval_ms == interval_ms


def test_turns_that_passed_are_forgotten(backend: Backend) -> None:
    """Once the last turn is over, a new one comes after its own wait alone."""
    backend.storage.gates.turn_ms("acme", 1_000, 20)

    backend.travel(2_000)

    assert backend.storage.gates.turn_ms("acme", 500, 20) == 500


def test_turns_of_another_partner_are_its_own(backend: Backend) -> None:
    """A long row before one partner makes nobody else wait."""
    for _ in range(10):
        backend.storage.gates.turn_ms("acme", 1_000, 60_000)

    assert backend.storage.gates.turn_ms("other", 1_000, 60_000) == 1_000


def test_no_two_callers_share_a_turn(backend: Backend) -> None:
    """Of 16 that ask at once no two get the same turn."""
    with ThreadPoolExecutor(16) as threads:
        delays = list(threads.map(lambda _: backend.storage.gates.turn_ms("acme", 1_000, 60_000), range(16)))

    assert len({round(delay / 60_000) for delay in delays}) == 16


def test_a_plea_for_patience_holds_everything_back(backend: Backend) -> None:
    """Until it is over nothing is let in, and each is told the time that is left."""
    assert backend.storage.gates.slow("acme", 120_000) is True

    answer = held(backend)

    assert answer.why is HeldBy.SLOWED
    assert 120_000 - backend.slack_ms <= answer.wait_ms <= 120_000
    assert backend.storage.gates.enter("other", "t", OPEN) is None


def test_a_plea_for_patience_ends(backend: Backend) -> None:
    """When its time is over deliveries go out, and the next plea is a new one."""
    backend.storage.gates.slow("acme", 60_000)

    backend.travel(60_000)

    assert backend.storage.gates.enter("acme", "t", OPEN) is None
    assert backend.storage.gates.slow("acme", 60_000) is True


def test_a_shorter_plea_does_not_shorten(backend: Backend) -> None:
    """The longest plea holds; only the first one of a row is told as new."""
    gates = backend.storage.gates

    answers = [gates.slow("acme", ms) for ms in (60_000, 1_000, 120_000)]

    assert answers == [True, False, False]
    assert 120_000 - backend.slack_ms <= held(backend).wait_ms <= 120_000


def test_a_stop_holds_for_its_address(backend: Backend) -> None:
    """Nothing goes to the stopped address, however long it takes; another address is not stopped."""
    assert backend.storage.gates.stop("acme", "here") is True

    backend.travel(86_400_000)

    assert held(backend) == STOPPED
    assert backend.storage.gates.enter("acme", "t", GateLimits(endpoint="there")) is None
    assert backend.storage.gates.enter("other", "t", OPEN) is None


def test_a_stop_is_told_once(backend: Backend) -> None:
    """Of 16 workers whose delivery met the end exactly one is told that it is news."""
    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(lambda _: backend.storage.gates.stop("acme", "here"), range(16)))

    assert answers.count(True) == 1


def test_a_stop_comes_before_a_plea(backend: Backend) -> None:
    """What an operator has to end is named before what ends by itself."""
    backend.storage.gates.slow("acme", 60_000)
    backend.storage.gates.stop("acme", "here")

    assert held(backend) == STOPPED


@pytest.mark.parametrize("does", ["stop", "slow"])
def test_resuming_lets_everything_in(backend: Backend, does: str) -> None:
    """After `resume` deliveries go out; it tells whether there was anything to end."""
    gates = backend.storage.gates
    _ = gates.stop("acme", "here") if does == "stop" else gates.slow("acme", 60_000)

    assert [gates.resume("acme"), gates.resume("acme")] == [True, False]
    assert gates.enter("acme", "t", OPEN) is None


def test_looking_changes_nothing(backend: Backend) -> None:
    """What holds a partner back is told as often as it is asked; bounds do not count."""
    gates = backend.storage.gates
    gates.enter("acme", "a", GateLimits(max_concurrent=1, endpoint="here"))
    free = gates.held_by("acme", "here")
    gates.slow("acme", 60_000)
    slowed = gates.held_by("acme", "here")
    gates.stop("acme", "here")

    assert free is None
    assert slowed is not None
    assert slowed.why is HeldBy.SLOWED
    assert [gates.held_by("acme", "here"), gates.held_by("acme", "here")] == [STOPPED, STOPPED]
