"""
The named points at which a process may die, from admission to acknowledgement; tests kill it at each.

`reach` costs a look at a constant unless `CHIO_TEST_CRASH_ORDERS` names a file when the process starts. The file holds
one order, such as `after_hook:2*3@worker`: the second time a process reaches the point it dies by SIGKILL, with the
worker it belongs to, three times in all. Who dies removes the file, or counts it down, first.
"""

import os
import signal
import threading
from collections import Counter
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

import billiard

#: Names the file with the order. No setting of the worker: nothing but a test may kill it.
ORDERS_VARIABLE: Final = "CHIO_TEST_CRASH_ORDERS"
_ORDERS: Final = Path(os.environ[ORDERS_VARIABLE]) if os.environ.get(ORDERS_VARIABLE) else None

_passes: Counter[str] = Counter()
_lock = threading.Lock()


def _after_fork() -> None:
    # Another thread may have held the lock at the fork.
    global _lock  # noqa: PLW0603  # one per process
    _lock = threading.Lock()


if _ORDERS is not None:
    os.register_at_fork(after_in_child=_after_fork)


class CrashPoint(StrEnum):
    """Name every point; what is true there stands beside it."""

    # --- a producer --------------------------------------------------------------------------------------------------
    #: The jobs are in the ledger; no message was sent.
    AFTER_ADMIT = "after_admit"
    #: The next job's message is about to be sent.
    BEFORE_PUBLISH = "before_publish"
    #: One more job's message was sent.
    AFTER_PUBLISH = "after_publish"

    # --- a worker's main loop ----------------------------------------------------------------------------------------
    #: Messages are taken from the broker; Celery was not told of the next one.
    AFTER_TAKE = "after_take"

    # --- one attempt -------------------------------------------------------------------------------------------------
    #: The message is read; nothing was asked of the ledger.
    BEFORE_CLAIM = "before_claim"
    #: The lease is taken.
    AFTER_CLAIM = "after_claim"
    #: The lease is kept; the hook was not called.
    BEFORE_HOOK = "before_hook"
    #: The hook answered; what it said is in memory alone.
    AFTER_HOOK = "after_hook"
    #: What the ledger is to record is decided.
    BEFORE_RECORD = "before_record"
    #: The outcome is in the ledger; nothing that follows was sent.
    AFTER_RECORD = "after_record"
    #: The retry is recorded; its message was not sent.
    BEFORE_RETRY_PUBLISH = "before_retry_publish"
    #: The retry's message was sent; the message of this attempt is not acknowledged.
    AFTER_RETRY_PUBLISH = "after_retry_publish"
    #: The dead letter is stored; the feed does not have it.
    BEFORE_DEAD_LETTER_PUBLISH = "before_dead_letter_publish"
    #: The feed has the dead letter; that is noted nowhere.
    AFTER_DEAD_LETTER_PUBLISH = "after_dead_letter_publish"
    #: Everything is done; the message is not acknowledged.
    BEFORE_ACKNOWLEDGE = "before_acknowledge"

    # --- the due pump ------------------------------------------------------------------------------------------------
    #: Rows are taken as outstanding; the next one's message was not sent.
    PUMP_AFTER_TAKE = "pump_after_take"
    #: One more row's message was sent.
    PUMP_AFTER_PUBLISH = "pump_after_publish"
    #: A queue's next mark is due and taken; it was not sent.
    PUMP_BEFORE_MARK = "pump_before_mark"
    #: The mark was sent.
    PUMP_AFTER_MARK = "pump_after_mark"
    #: Dead letters are taken for the feed; none was sent.
    PUMP_BEFORE_FEED = "pump_before_feed"
    #: The feed has one more dead letter; that is noted nowhere.
    PUMP_AFTER_FEED = "pump_after_feed"

    # --- around them -------------------------------------------------------------------------------------------------
    #: A mark came through its queue; the watermark does not say so.
    MARK_BEFORE_STORE = "mark_before_store"
    #: A message that nobody can read is in quarantine and not acknowledged.
    QUARANTINE_AFTER_STORE = "quarantine_after_store"
    #: A receipt is applied; its message is not acknowledged.
    CONFIRM_AFTER_STORE = "confirm_after_store"
    #: Entries are escalated and their jobs due; the next one was not reported.
    ESCALATE_AFTER_STORE = "escalate_after_store"
    #: A dead job is back in the ledger; its message was not sent.
    REPLAY_AFTER_STORE = "replay_after_store"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Say who is to die where."""

    point: CrashPoint
    #: At which pass of one process.
    number: int = 1
    #: How many processes are to die, one after the other.
    times: int = 1
    #: Whether a pool process takes its worker with it.
    whole_worker: bool = False

    @classmethod
    def from_text(cls, text: str) -> "Order":
        """Read `point:n*times@worker`, of which only the point must be there; raises `ValueError` for anything else."""
        where, _, who = text.strip().partition("@")
        first, _, times = where.partition("*")
        name, _, number = first.partition(":")
        if who not in {"", "worker"}:
            raise ValueError(f"expected nothing or 'worker' after the @, got: {who!r}")
        return cls(point=CrashPoint(name), number=int(number or 1), times=int(times or 1), whole_worker=bool(who))

    def to_text(self) -> str:
        """Write the order as it stands in the file."""
        return f"{self.point}:{self.number}*{self.times}{'@worker' if self.whole_worker else ''}"

    def carried_out(self) -> "Order | None":
        """Return what is left of the order once somebody died of it."""
        return replace(self, times=self.times - 1) if self.times > 1 else None


def reach(point: CrashPoint) -> None:
    """Pass the point, or die there if that was ordered."""
    if _ORDERS is not None:
        _obey(_ORDERS, point)


def _obey(orders: Path, point: CrashPoint) -> None:
    with _lock:
        order = _order_in(orders)
        if order is None or order.point is not point:
            return
        _passes[point] += 1
        if _passes[point] < order.number:
            return
        _passes.clear()
        if not _take(orders, order):
            return
    _die(with_parent=order.whole_worker)


def _take(orders: Path, order: Order) -> bool:
    """Take one death off the order; False if another process was there first."""
    try:
        orders.unlink()
    except FileNotFoundError:
        return False
    if left := order.carried_out():
        draft = orders.with_suffix(".left")
        draft.write_text(left.to_text(), encoding="ascii")
        draft.replace(orders)
    return True


def _order_in(orders: Path) -> Order | None:
    try:
        return Order.from_text(orders.read_text(encoding="ascii"))
    except FileNotFoundError:
        return None


def _die(*, with_parent: bool) -> None:
    """Kill this process, and before it the worker whose pool process it is."""
    if with_parent and billiard.current_process().name != "MainProcess":
        os.kill(os.getppid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
