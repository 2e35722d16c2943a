"""How much is measured: enough for figures that are published, or little, to see that everything works."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Hold the counts of one run. `rounds` are repeated in alternating order; their medians are published."""

    quick: bool
    rounds: int
    #: Jobs of one measured run, after those that warm it up.
    jobs: int
    warm_up_jobs: int
    #: Jobs that fail twice, and deliveries, of one measured run.
    retried_jobs: int
    deliveries: int
    #: Deliveries that wait for a partner that is down.
    waiting_deliveries: int
    #: How long jobs come at a fixed rate, in seconds.
    paced_s: int
    #: Retries that wait for an hour, in this project and in stock Celery.
    parked_retries: int
    stock_parked_retries: int
    #: Entries that wait for a receipt: few and many.
    pending: tuple[int, int]
    #: Ledger rows whose memory is measured.
    rows: int
    #: Jobs that wait while a part of them is measured.
    backlogs: tuple[int, ...]
    #: Worker processes side by side.
    worker_counts: tuple[int, ...]


FULL: Final = Scale(
    quick=False,
    rounds=5,
    jobs=10_000,
    warm_up_jobs=1_000,
    retried_jobs=10_000,
    deliveries=5_000,
    waiting_deliveries=10_000,
    paced_s=10,
    parked_retries=100_000,
    stock_parked_retries=10_000,
    pending=(10_000, 1_000_000),
    rows=100_000,
    backlogs=(1_000, 10_000, 100_000, 1_000_000),
    worker_counts=(1, 2, 3, 4),
)
QUICK: Final = Scale(
    quick=True,
    rounds=3,
    jobs=1_500,
    warm_up_jobs=200,
    retried_jobs=400,
    deliveries=1_000,
    waiting_deliveries=300,
    paced_s=4,
    parked_retries=2_000,
    stock_parked_retries=2_000,
    pending=(10_000, 50_000),
    rows=10_000,
    backlogs=(1_000, 10_000),
    worker_counts=(1, 2),
)
