"""
The soft time limit reaches an attempt that runs, and nothing else a pool process does.

Celery sends it late when its main loop stood still, as it does while it reconnects. In an idle process it would end the
process; in one that hands in a result it would cut the message in two, and the main process ends over what it then
reads. So between two attempts the signal is ignored.
"""

import signal
from typing import Final

from billiard import pool
from celery import signals

_SIGNAL: Final = pool.SIG_SOFT_TIMEOUT


def guard() -> None:
    """Begin in a new pool process."""
    if _SIGNAL is None:
        return
    # Receivers are called with arguments nobody here needs.
    signals.task_prerun.connect(lambda **_: _listen(), weak=False, dispatch_uid="chio:soft_limit:prerun")
    signals.task_postrun.connect(lambda **_: _ignore(), weak=False, dispatch_uid="chio:soft_limit:postrun")


def _listen() -> None:
    signal.signal(_SIGNAL, pool.soft_timeout_sighandler)


def _ignore() -> None:
    signal.signal(_SIGNAL, signal.SIG_IGN)
