"""Leases of running hooks are renewed, and only those."""

from typing import Final

from reliability.errors import StorageUnavailableError
from storage.bundle import memory_storage
from storage.jobs import Claim
from tests.support import builders
from tests.support.clock import ManualClock
from worker.lease_keeper import RenewingLeaseKeeper

LEASE_MS: Final = 9_000
HARD_LIMIT_S: Final = 45


class Bench:
    """Hold a keeper on a memory ledger; its own thread sleeps for seconds and stays out of a test's way."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.jobs = memory_storage(self.clock).jobs
        self.keeper = RenewingLeaseKeeper(self.jobs, LEASE_MS, HARD_LIMIT_S, lambda: self.clock.now_ms() / 1000)

    def claim(self, job_id: str = "rcpt-1") -> Claim:
        """Admit and claim a job."""
        return builders.admitted_and_claimed(self.jobs, builders.job(job_id), builders.lease(lease_ms=LEASE_MS))

    def lease_until_ms(self, job_id: str = "rcpt-1") -> int | None:
        """Return when the job's lease ends."""
        row = self.jobs.get(job_id)
        return row.lease_until_ms if row else None


def test_a_held_claim_is_renewed() -> None:
    """While the block runs, the lease is extended from now."""
    bench = Bench()
    claim = bench.claim()

    with bench.keeper.keep(claim):
        bench.clock.advance(5_000)
        bench.keeper.renew()

    assert bench.lease_until_ms() == bench.clock.now_ms() + LEASE_MS


def test_many_claims_are_renewed_together() -> None:
    """All claims of batches are extended while their block runs, more than one exchange takes, and let go after."""
    bench = Bench()
    claims = [bench.claim(f"rcpt-{number}") for number in range(1_100)]

    with bench.keeper.keep(*claims):
        bench.clock.advance(5_000)
        bench.keeper.renew()
    renewed = {bench.lease_until_ms(claim.job_id) for claim in claims}
    bench.clock.advance(1_000)
    bench.keeper.renew()

    assert renewed == {bench.clock.now_ms() - 1_000 + LEASE_MS}
    assert {bench.lease_until_ms(claim.job_id) for claim in claims} == renewed


def test_a_claim_is_let_go_with_its_block() -> None:
    """After the block the lease is left to run out."""
    bench = Bench()
    claim = bench.claim()
    with bench.keeper.keep(claim):
        pass

    bench.clock.advance(5_000)
    bench.keeper.renew()

    assert bench.lease_until_ms() == claim.lease_until_ms


def test_no_claim_is_renewed_past_the_hard_limit() -> None:
    """A hook that outlives its hard limit loses its lease."""
    bench = Bench()
    with bench.keeper.keep(bench.claim()):
        for _ in range(HARD_LIMIT_S // 5):
            bench.clock.advance(5_000)
            bench.keeper.renew()

        last_ms = bench.lease_until_ms()
        bench.clock.advance(5_000)
        bench.keeper.renew()

        assert bench.lease_until_ms() == last_ms


def test_a_lost_claim_is_forgotten() -> None:
    """A lease that has run out is not asked for again, and does not keep others from being renewed."""
    bench = Bench()
    with bench.keeper.keep(bench.claim("lost")):
        bench.clock.advance(LEASE_MS + 1)
        with bench.keeper.keep(bench.claim("held")):
            bench.keeper.renew()
            bench.clock.advance(1_000)
            bench.keeper.renew()

    assert bench.lease_until_ms("held") == bench.clock.now_ms() + LEASE_MS


def test_an_outage_is_outlived() -> None:
    """A store that does not answer costs one turn; the next one renews."""
    bench = Bench()
    renew, answers = bench.jobs.renew, [False, True]

    def sometimes(*arguments: object) -> object:
        if not answers.pop(0):
            raise StorageUnavailableError("renew", "rcpt-1")
        return renew(*arguments)  # type: ignore[arg-type]  # passed through as they came

    bench.jobs.renew = sometimes  # type: ignore[method-assign, assignment]  # the outage is the test
    with bench.keeper.keep(bench.claim()):
        bench.keeper.renew()
        bench.clock.advance(1_000)
        bench.keeper.renew()

    assert bench.lease_until_ms() == bench.clock.now_ms() + LEASE_MS
