"""
Outcomes that the ledger could not take, on local disk, until the due pump of a worker on this host records them.

A hook's effect is done while its outcome is in memory alone. One file holds one outcome, written whole and synced; it
holds no payload: the claim's identity, with which the lease is taken back, and the step. An outcome whose next attempt
has begun meanwhile is dropped: that attempt's counts.
"""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from reliability.errors import InvalidRecordError
from reliability.events import Event
from storage.bundle import Storage
from storage.jobs import Claim, ClaimCause, JobKind
from tasks import reporting, step_codec, steps
from tasks.emit import emit, warn
from tasks.recording import Outcome, Recorder
from worker.spool_folder import SpoolFolder

SCHEMA: Final = "chio.spool.outcome.v1"
_SUFFIX: Final = ".json"
#: How many outcomes one turn records: the pump has other duties.
_MOST_AT_ONCE: Final = 500
#: Every late retry is parked: the message of a retry that was due meanwhile is the pump's to send.
_NO_HOP_MS: Final = -1


class FileSpool:
    """Keep outcomes in one folder, one file each. Safe to use from several processes."""

    def __init__(self, folder: Path, max_entries: int, now_ms: Callable[[], int]) -> None:
        self._folder = SpoolFolder(folder, _SUFFIX)
        self._max_entries = max_entries
        self._now_ms = now_ms

    def keep(self, outcome: Outcome) -> bool:
        """Write the outcome and sync it; False if the folder is full or cannot be written."""
        claim = outcome.claim
        try:
            if len(self) >= self._max_entries:
                warn(Event.OUTCOME_NOT_SPOOLED, job_id=claim.job_id, attempt=claim.attempt, why="full")
                return False
            self._write(outcome)
        except OSError as error:
            warn(Event.OUTCOME_NOT_SPOOLED, job_id=claim.job_id, attempt=claim.attempt, why=type(error).__name__)
            return False
        warn(Event.OUTCOME_SPOOLED, job_id=claim.job_id, attempt=claim.attempt)
        return True

    def __len__(self) -> int:
        return len(self._folder)

    def entries(self) -> Iterator[Path]:
        """Yield the files, oldest first."""
        return self._folder.entries()

    def read(self, path: Path) -> Outcome | None:
        """Return what a file holds, its delay shortened by the time it waited; None if another process took it away."""
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        return outcome_in(text, self._now_ms())

    def forget(self, path: Path) -> None:
        """Remove a file that is done with."""
        self._folder.forget(path)

    def _write(self, outcome: Outcome) -> None:
        claim, now_ms = outcome.claim, self._now_ms()
        digest = hashlib.sha256(f"{claim.job_id}\0{claim.token}".encode()).hexdigest()[:24]
        self._folder.write(now_ms, digest, text_of(outcome, now_ms).encode())


class LateRecorder:
    """Record spooled outcomes: the due pump calls `flush` before it wakes anything."""

    def __init__(self, spool: FileSpool, storage: Storage, lease_ms: int) -> None:
        self._spool = spool
        self._jobs = storage.jobs
        self._lease_ms = lease_ms
        self._recorder = Recorder(storage=storage, max_hop_ms=_NO_HOP_MS, pause=lambda _: None)

    def flush(self) -> None:
        """
        Record what waits, oldest first.

        Raises:
            StorageUnavailableError: if the store did not answer; what is not recorded waits on.

        """
        for path in list(self._spool.entries())[:_MOST_AT_ONCE]:
            try:
                outcome = self._spool.read(path)
            except InvalidRecordError as error:
                warn(Event.OUTCOME_NOT_SPOOLED, job_id=path.stem, why=error.what)
                outcome = None
            if outcome is not None:
                self._record(outcome)
            self._spool.forget(path)

    def _record(self, outcome: Outcome) -> None:
        claim = outcome.claim
        if not self._jobs.resume(claim, self._lease_ms):
            # Its next attempt has begun, or the store had taken it and only its answer was lost.
            warn(Event.JOB_CLAIM_LOST, job_id=claim.job_id, attempt=claim.attempt)
            return
        for recorded in self._recorder.record([outcome]):
            emit(Event.OUTCOME_RECORDED_LATE, job_id=claim.job_id, attempt=claim.attempt)
            reporting.report(claim, recorded.step)


def text_of(outcome: Outcome, now_ms: int) -> str:
    """Write an outcome as one JSON object."""
    fields = dataclasses.asdict(dataclasses.replace(outcome.claim, payload=b""))
    del fields["payload"]
    return json.dumps(
        {"schema": SCHEMA, "spooled_at_ms": now_ms, "claim": fields, "step": step_codec.to_wire(outcome.step)}
    )


def outcome_in(text: str, now_ms: int) -> Outcome:
    """
    Read an outcome; its claim has no payload, and its delay is what is left of it.

    Raises:
        InvalidRecordError: It is none.

    """
    try:
        found = json.loads(text)
        claim, step = _claim_in(found["claim"]), step_codec.from_wire(found["step"])
        waited_ms = now_ms - int(found["spooled_at_ms"])
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidRecordError("spooled outcome", f"cannot be read: {type(error).__name__}") from error
    return Outcome(claim, _after(step, max(0, waited_ms)))


def _claim_in(fields: Mapping[str, object]) -> Claim:
    kind, cause = JobKind(str(fields["kind"])), ClaimCause(str(fields["cause"]))
    claim = {**fields, "kind": kind, "cause": cause, "payload": b""}
    return Claim(**claim)  # type: ignore[arg-type]  # a file of another version has other fields and is refused


def _after(step: steps.Step, waited_ms: int) -> steps.Step:
    match step:
        case steps.RetryAfter(delay_ms=delay_ms) | steps.Defer(delay_ms=delay_ms):
            return dataclasses.replace(step, delay_ms=max(0, delay_ms - waited_ms))
        case _:
            return step
