"""
Renew the leases of running hooks: one daemon thread per process, every third of a lease, never past the hard limit.

A hook that outlives its hard limit loses its lease, so that another worker may go on with the job. A store that does
not answer is asked again at the next turn; whether a claim still holds is decided when its outcome is recorded.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Final

from reliability.errors import StorageUnavailableError
from storage.jobs import Claim
from storage.protocols import JobStorage

#: A lease is renewed so many times before it could expire.
_RENEWALS_PER_LEASE: Final = 3
#: How many leases one exchange renews; a batch of jobs may hold a thousand.
_MOST_AT_ONCE: Final = 500


class RenewingLeaseKeeper:
    """Keep the claims of one process alive. Its thread starts with the first claim."""

    def __init__(
        self,
        jobs: JobStorage,
        lease_ms: int,
        hard_limit_s: float,
        monotonic_s: Callable[[], float],
        *,
        may_renew: Callable[[], bool] = lambda: True,
    ) -> None:
        self._jobs = jobs
        self._lease_ms = lease_ms
        self._hard_limit_s = hard_limit_s
        self._monotonic_s = monotonic_s
        self._may_renew = may_renew
        self._held: dict[int, tuple[Claim, float]] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def keep(self, *claims: Claim) -> Iterator[None]:
        """Renew the claims' leases until the block ends or the hard limit of one attempt has passed."""
        until_s = self._monotonic_s() + self._hard_limit_s
        with self._lock:
            self._held.update((id(claim), (claim, until_s)) for claim in claims)
            self._start()
        try:
            yield
        finally:
            with self._lock:
                for claim in claims:
                    self._held.pop(id(claim), None)

    def renew(self) -> None:
        """Renew every claim that is held and not past its limit; forget those whose lease is lost."""
        claims = self._renewable()
        if not claims or not self._may_renew():
            return
        for start in range(0, len(claims), _MOST_AT_ONCE):
            self._renew(claims[start : start + _MOST_AT_ONCE])

    def _renew(self, claims: list[Claim]) -> None:
        try:
            renewed = self._jobs.renew(claims, self._lease_ms)
        except StorageUnavailableError:
            return
        self._forget([claim for claim, still_held in zip(claims, renewed, strict=True) if not still_held])

    def _renewable(self) -> list[Claim]:
        now_s = self._monotonic_s()
        with self._lock:
            return [claim for claim, until_s in self._held.values() if now_s < until_s]

    def _forget(self, claims: list[Claim]) -> None:
        with self._lock:
            for claim in claims:
                self._held.pop(id(claim), None)

    def _start(self) -> None:
        # A thread that died of something nobody foresaw is replaced with the next claim.
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="lease-keeper", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        pause = threading.Event()
        while not pause.wait(self._lease_ms / 1000 / _RENEWALS_PER_LEASE):
            self.renew()
