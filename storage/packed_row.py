"""
Read a row of the ledger as the scripts keep it: packed, its fields in the order of their places in `_row.lua`.

Only scripts write rows. A row becomes a claim, or what operators see of a job.
"""

import struct
from typing import Final, NamedTuple

from reliability.errors import InvalidRecordError
from storage.jobs import Claim, ClaimCause, JobKind, JobRow, JobState

#: What has a fixed width; texts that end with NUL follow.
_FIXED: Final = struct.Struct(">32s4dIHBB")
_KINDS: Final = {kind.value.encode(): kind for kind in JobKind}
_STATES: Final = {state.value.encode(): state for state in JobState}
_CAUSES: Final = {cause.value.encode(): cause for cause in ClaimCause}


class PackedRow(NamedTuple):
    """Hold the fields; 0 and nothing stand for none, instants are in Unix milliseconds."""

    digest: bytes
    admitted: float
    due: float
    first: float
    lease: float
    version: int
    wakeups: int
    hold: int
    alone: int
    kind: bytes
    queue: bytes
    finalized: bytes
    attempt: bytes
    state: bytes
    owner: bytes
    token: bytes
    cause: bytes
    #: What follows the last text.
    rest: bytes

    @classmethod
    def read(cls, job_id: str, packed: bytes) -> "PackedRow":
        """
        Read a row.

        Raises:
            InvalidRecordError: Somebody else wrote something in its place.

        """
        try:
            return cls(*_FIXED.unpack_from(packed), *packed[_FIXED.size :].split(b"\0"))
        except (struct.error, TypeError) as error:
            problem = "expected a packed row of the ledger, got something else; delete the key"
            raise InvalidRecordError(f"job {job_id!r}", problem) from error

    def claimed(self, job_id: str, payload: bytes, now_ms: int) -> Claim:
        """Return the claim that was made at `now_ms`."""
        return Claim(
            job_id=job_id,
            kind=_KINDS[self.kind],
            queue=self.queue.decode(),
            attempt=int(self.attempt),
            version=self.version,
            token=self.token.decode(),
            lease_until_ms=int(self.lease),
            payload=payload,
            finalized_at=int(self.finalized),
            admitted_at_ms=int(self.admitted),
            first_attempt_at_ms=int(self.first),
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
            due_at_ms=int(self.due),
            admitted_at_ms=int(self.admitted),
            first_attempt_at_ms=int(self.first) or None,
            finalized_at=int(self.finalized),
            owner=self.owner.decode() or None,
            lease_until_ms=int(self.lease) or None,
            wakeups=self.wakeups,
            digest=self.digest,
        )
