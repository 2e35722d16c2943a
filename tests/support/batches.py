"""
A bench for batches: a flow around a hook that answers by receipt, on any back end, with time that a test turns.

What a batch would publish is noted instead.
"""

import contextlib
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reliability import outcomes
from reliability.dead_letter import DeadLetterRecord
from reliability.errors import StorageUnavailableError
from reliability.failures import SettlementFailureCode, SettlementFailureReason
from reliability.retry import RetryPolicy
from reliability.settlement import SettlementObservation
from storage.bundle import Storage
from storage.jobs import Claim, JobKind, JobRow, Lease, NewJob
from tasks import batch_runtime, messages
from tasks.attempt_flow import AttemptFlow, QuestionT
from tasks.batch_flow import BatchParts, BatchRun
from tasks.batch_messages import Wanted
from tasks.packing import Wake
from tasks.recording import Recorder
from tasks.settlement_flow import SettlementFlow, SettlementQuestion
from tests.support import observations
from tests.support.backends import Backend
from tests.support.clock import ManualClock

FINALIZED_AT = 1_760_000_000
MAX_HOP_MS = 60_000
BOX_MS = 5_000
LEASE_MS = 15_000
POLICY = RetryPolicy(max_retries=2, initial_backoff_ms=100, backoff_multiplier=2, backoff_cap_ms=1_000)
BUSY = outcomes.Retryable(SettlementFailureReason.from_detail(SettlementFailureCode.RPC, "status 503"))
WRONG = outcomes.Permanent(SettlementFailureReason.from_detail(SettlementFailureCode.INVALID_INPUT, "status 422"))

Answer = Callable[[], object]


class InterruptedHere(Exception):  # noqa: N818  # stands for what a time limit raises, which is no error either
    """A time limit struck."""


@dataclass
class Hook:
    """Answer what a test says for a receipt and accept the others; remember what was asked, in order."""

    answers: Mapping[str, Answer] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def observe(self, observation: SettlementObservation) -> outcomes.SettlementResult:
        """Answer for one receipt."""
        self.asked.append(observation.receipt_id)
        answer = self.answers.get(observation.receipt_id, outcomes.Accepted)
        return answer()  # type: ignore[return-value]  # some tests answer what no hook may


@dataclass
class ManyHook(Hook):
    """Answer for many with one call; `many` replaces the whole answer."""

    calls: list[int] = field(default_factory=list)
    many: Callable[[Sequence[SettlementObservation]], Sequence[outcomes.SettlementResult | Exception]] | None = None

    def observe_many(
        self, observations: Sequence[SettlementObservation]
    ) -> Sequence[outcomes.SettlementResult | Exception]:
        """Answer for each; what an answer raises stands in its place."""
        self.calls.append(len(observations))
        return self.many(observations) if self.many else [self._one(observation) for observation in observations]

    def _one(self, observation: SettlementObservation) -> outcomes.SettlementResult | Exception:
        try:
            return self.observe(observation)
        except Exception as error:  # noqa: BLE001  # the contract allows it in an answer's place
            return error


@dataclass
class AsyncHook(Hook):
    """Answer on the loop."""

    async def observe_async(self, observation: SettlementObservation) -> outcomes.SettlementResult:
        """Answer for one receipt."""
        return self.observe(observation)


@dataclass
class Aftermath:
    """Note what a batch would publish."""

    woken: list[Wake] = field(default_factory=list)
    shared: list[Sequence[Wanted]] = field(default_factory=list)
    buried: list[DeadLetterRecord] = field(default_factory=list)
    aside: list[Wanted] = field(default_factory=list)
    broker_is_up: bool = True

    def wake(self, wakes: Sequence[Wake]) -> None:
        """Note wake-ups."""
        self.woken += wakes

    def share(self, wanted: Sequence[Wanted]) -> bool:
        """Note what was given away."""
        if self.broker_is_up:
            self.shared.append(wanted)
        return self.broker_is_up

    def bury(self, record: DeadLetterRecord) -> None:
        """Note a dead letter."""
        self.buried.append(record)

    def set_pair_aside(self, pair: Wanted, _error: Exception) -> None:
        """Note a damaged row."""
        self.aside.append(pair)


@dataclass
class Keeper:
    """Note whose leases are kept."""

    kept: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def keep(self, *claims: Claim) -> Iterator[None]:
        """Note the claims."""
        self.kept += [claim.job_id for claim in claims]
        yield


@dataclass
class Bench:
    """Run batches on a back end; `ticks` is the time they are measured by."""

    backend: Backend
    concurrency: int = 4
    ticks: ManualClock = field(default_factory=ManualClock)
    after: Aftermath = field(default_factory=Aftermath)
    keeper: Keeper = field(default_factory=Keeper)
    pauses_s: list[float] = field(default_factory=list)
    monotonic_ms: Callable[[], int] | None = None
    storage: Storage = field(init=False)

    def __post_init__(self) -> None:
        self.storage = self.backend.storage
        self.batch = batch_runtime.make(100, self.concurrency, BOX_MS, self._now_ms)
        self._leases = iter(range(1_000))

    @property
    def parts(self) -> BatchParts:
        """Return what a batch works with."""
        return BatchParts(
            ledger=self.storage.jobs,
            recorder=Recorder(storage=self.storage, max_hop_ms=MAX_HOP_MS, pause=self.pauses_s.append),
            keeper=self.keeper,
            new_lease=self.new_lease,
            batch=self.batch,
            interruption=InterruptedHere,
        )

    def new_lease(self) -> Lease:
        """Return a lease with a token of its own."""
        return Lease(owner="worker-1", token=f"batch-{next(self._leases)}-", lease_ms=LEASE_MS)

    def admit(self, *receipts: str) -> list[Wanted]:
        """Admit settlements, finalised in this order, and return what wakes them."""
        jobs = [job(receipt, FINALIZED_AT + place) for place, receipt in enumerate(receipts)]
        self.storage.jobs.admit_many(jobs)
        return [(receipt, 0) for receipt in receipts]

    def of(self, hook: Hook, wanted: Sequence[Wanted]) -> BatchRun[SettlementQuestion]:
        """Return a batch of settlements."""
        return self.batch_of(self.flow(hook), JobKind.SETTLEMENT, wanted)

    def batch_of(self, flow: AttemptFlow[QuestionT], kind: JobKind, wanted: Sequence[Wanted]) -> BatchRun[QuestionT]:
        """Return a batch of any kind."""
        return BatchRun(parts=self.parts, kind=kind, flow=flow, after=self.after, left=list(wanted))

    def run(self, hook: Hook, wanted: Sequence[Wanted]) -> BatchRun[SettlementQuestion]:
        """Run a batch of settlements to its end."""
        batch = self.of(hook, wanted)
        batch.run()
        return batch

    def flow(self, hook: Hook) -> SettlementFlow:
        """Return a flow around the hook."""
        return SettlementFlow(hook=hook, policy=POLICY, clock=ManualClock(1_750_000_000_000), jitter_ms=lambda: 0)

    def row(self, job_id: str) -> JobRow:
        """Return a job's row, which has to be there."""
        row = self.storage.jobs.get(job_id)
        assert row is not None, f"expected a row of {job_id}"
        return row

    def row_is_gone(self, job_id: str) -> bool:
        """Tell whether the ledger holds no row of the job."""
        return self.storage.jobs.get(job_id) is None

    def settled(self) -> int:
        """Count what ended well."""
        return sum(self.storage.jobs.counts(JobKind.SETTLEMENT).finished.values())

    def _now_ms(self) -> int:
        return self.monotonic_ms() if self.monotonic_ms else self.ticks.now_ms()


def names(count: int) -> list[str]:
    """Return receipt ids in the order of their bytes."""
    return [f"rcpt-{number:04d}" for number in range(count)]


def monotonic_ms() -> int:
    """Return the time that really passes."""
    return time.monotonic_ns() // 1_000_000


def job(receipt_id: str, finalized_at: int = FINALIZED_AT) -> NewJob:
    """Return a settlement job."""
    observation = observations.observation(receipt_id=receipt_id, finalized_at=finalized_at)
    return messages.admissible_settlement(observation, 65_536)


def answering(**answers: object) -> dict[str, Answer]:
    """Return answers by receipt; an exception is raised."""
    return {receipt: _answer(answer) for receipt, answer in answers.items()}


def _answer(answer: object) -> Answer:
    def give() -> object:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return give


class Gate:
    """Let a hook wait until the test lets it go on; gives up after a limit, so that no test hangs."""

    LIMIT_S = 20.0

    def __init__(self) -> None:
        self._open = threading.Event()
        self.reached: defaultdict[str, threading.Event] = defaultdict(threading.Event)

    def open(self) -> None:
        """Let everybody go on."""
        self._open.set()

    def hook(self, name: str) -> Answer:
        """Return an answer that tells that its hook is here, and waits before it accepts."""

        def wait() -> object:
            self.reached[name].set()
            assert self._open.wait(self.LIMIT_S), "nobody opened the gate"
            return outcomes.Accepted()

        return wait

    def wait_until_reached(self, name: str) -> None:
        """Wait until somebody is here."""
        assert self.reached[name].wait(self.LIMIT_S), "nobody reached the gate"


class Flaky:
    """Pass everything on, but fail some calls of one operation first."""

    def __init__(self, inner: Any, operation: str, failures: int) -> None:
        self._inner = inner
        self._operation = operation
        self._failures = failures

    def __getattr__(self, name: str) -> Any:
        """Return the operation, which may fail."""
        if name == self._operation and self._failures:
            self._failures -= 1
            return self._fail
        return getattr(self._inner, name)

    def _fail(self, *_: object) -> None:
        raise StorageUnavailableError(self._operation, "a batch")
