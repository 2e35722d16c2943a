"""Jobs for scenarios that work on the ledger itself, without workers."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, TypeVar

from benchmarks.bench import Bench
from storage import bundle, redis_client
from storage.jobs import JobKind, Lease, NewJob
from storage.options import LedgerOptions
from storage.protocols import JobStorage
from tasks import names

Item = TypeVar("Item")

#: Bytes of a payload whose memory is promised.
PAYLOAD_BYTES: Final = 500
_FIRST_FINALIZED_AT: Final = 1_760_000_000
_LEASE_MS: Final = 600_000
#: Most entries that a scenario lets wait for a receipt.
_CAPACITY: Final = 2_000_000


def storage(bench: Bench) -> bundle.Storage:
    """Return the stores on the bench's server."""
    client = redis_client.connect(f"{bench.address}/0", timeout_s=60)
    return bundle.redis_storage(client, options=LedgerOptions(reconciliation_capacity=_CAPACITY))


def ledger(bench: Bench) -> JobStorage:
    """Return the ledger on the bench's server."""
    return storage(bench).jobs


def new_jobs(count: int, payload_bytes: int = PAYLOAD_BYTES) -> list[NewJob]:
    """Make settlements whose payloads differ and have this size."""
    return [
        NewJob(
            job_id=f"rcpt-{number:012d}",
            kind=JobKind.SETTLEMENT,
            queue=names.SETTLEMENT_QUEUE,
            payload=f"{number:0{payload_bytes}d}".encode(),
            finalized_at=_FIRST_FINALIZED_AT + number,
        )
        for number in range(count)
    ]


def lease() -> Lease:
    """Make a lease that outlives any run."""
    return Lease(owner="benchmark:1", token="0123456789abcdef" * 2, lease_ms=_LEASE_MS)  # no secret


def chunks(items: Sequence[Item], size: int) -> Iterator[list[Item]]:
    """Yield the items in lists of so many."""
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk
