"""How wake-ups share messages: pure, by due time and size."""

from hypothesis import given
from hypothesis import strategies as st

from tasks import packing
from tasks.packing import Pack, Wake


def test_wake_ups_due_together_share_a_message() -> None:
    """Those within 50 ms of the soonest wait for the last of them."""
    wakes = [Wake("a", 1, 100), Wake("b", 2, 150), Wake("c", 1, 151)]

    assert list(packing.packs(wakes, 10)) == [Pack([("a", 1), ("b", 2)], 150), Pack([("c", 1)], 151)]


def test_a_message_holds_no_more_than_its_size() -> None:
    """The next one begins where the last is full."""
    wakes = [Wake(name, 0) for name in "abcde"]

    assert [len(pack.wanted) for pack in packing.packs(wakes, 2)] == [2, 2, 1]


def test_nothing_to_wake_is_no_message() -> None:
    """No wake-up, no pack."""
    assert list(packing.packs([], 10)) == []


@given(
    st.lists(st.integers(min_value=0, max_value=1_000), max_size=60),
    st.integers(min_value=1, max_value=20),
)
def test_every_wake_up_is_sent_once_and_never_early(delays: list[int], size: int) -> None:
    """Whatever the delays, each is in exactly one message, in time, at most 50 ms late."""
    wakes = [Wake(f"job-{place}", 0, delay) for place, delay in enumerate(delays)]

    sent = [(job_id, pack.delay_ms) for pack in packing.packs(wakes, size) for job_id, _ in pack.wanted]

    assert sorted(job_id for job_id, _ in sent) == sorted(wake.job_id for wake in wakes)
    due = {wake.job_id: wake.delay_ms for wake in wakes}
    assert all(0 <= delay_ms - due[job_id] <= packing.SPREAD_MS for job_id, delay_ms in sent)
    assert all(len(pack.wanted) <= size for pack in packing.packs(wakes, size))


def test_a_job_in_whose_attempt_a_worker_died_travels_alone() -> None:
    """Whoever may kill its process again shares no message; the others are packed around it."""
    wakes = [Wake("a", 1, 10), Wake("killer", 1, 20, alone=True), Wake("b", 1, 30)]

    packs = list(packing.packs(wakes, 10))

    assert sorted(list(pack.wanted) for pack in packs) == [[("a", 1), ("b", 1)], [("killer", 1)]]
    assert [pack.delay_ms for pack in packs if pack.wanted == [("killer", 1)]] == [20]
