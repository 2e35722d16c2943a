"""
Read a row of the ledger as the scripts keep it: one MessagePack list, its fields at the places that `_row.lua` names.

Only scripts write rows. What an instance holds is a claim or what operators see of a job.
"""

from typing import NamedTuple

import msgpack

from reliability.errors import InvalidRecordError
from storage.jobs import Claim, ClaimCause, JobKind, JobRow, JobState

_KINDS = {kind.value.encode(): kind for kind in JobKind}
_STATES = {state.value.encode(): state for state in JobState}
_CAUSES: dict[bytes | bool, ClaimCause] = {cause.value.encode(): cause for cause in ClaimCause}
_CAUSES[False] = ClaimCause.DUE


class PackedRow(NamedTuple):
    """Hold the fields in the order of their places; False stands for none."""

    kind: bytes
    queue: bytes
    digest: bytes
    finalized: bytes
    admitted: int
    attempt: bytes
    version: int
    state: bytes
    due: int
    first: int
    owner: bytes
    token: bytes
    lease: int
    wakeups: int
    cause: bytes | bool
    hold: bool
    alone: bool

    @classmethod
    def read(cls, job_id: str, packed: bytes) -> "PackedRow":
        """
        Read a row.

        Raises:
            InvalidRecordError: Somebody else wrote something in its place.

        """
        try:
            return cls(*msgpack.unpackb(packed, raw=True))
        except (ValueError, TypeError, msgpack.UnpackException) as error:
            raise damaged(job_id) from error

    def claimed(self, job_id: str, payload: bytes, now_ms: int) -> Claim:
        """Return the claim that was made at `now_ms`."""
        return Claim(
            job_id=job_id,
            kind=_KINDS[self.kind],
            queue=self.queue.decode(),
            attempt=int(self.attempt),
            version=self.version,
            token=self.token.decode(),
            lease_until_ms=self.lease,
            payload=payload,
            finalized_at=int(self.finalized),
            admitted_at_ms=self.admitted,
            first_attempt_at_ms=self.first,
            cause=_CAUSES[self.cause],
            claimed_at_ms=now_ms,
        )

    def shown(self, job_id: str) -> JobRow:
        """Return what operators see of the job."""
        return JobRow(
            job_id=job_id,
            kind=_KINDS[self.kind],
            queue=self.queue.decode(),
            state=_STATES[self.state],
            attempt=int(self.attempt),
            version=self.version,
            due_at_ms=self.due,
            admitted_at_ms=self.admitted,
            first_attempt_at_ms=self.first or None,
            finalized_at=int(self.finalized),
            owner=self.owner.decode() if self.owner else None,
            lease_until_ms=self.lease or None,
            wakeups=int(self.wakeups),
            digest=self.digest,
        )


def damaged(job_id: str) -> InvalidRecordError:
    """Return the error of a row that is none."""
    return InvalidRecordError(
        f"job {job_id!r}", "expected a packed row of the ledger, got something else; delete the key"
    )
