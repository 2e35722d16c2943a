"""Pool processes share what they are forked with."""

import gc
from types import SimpleNamespace

import pytest
from celery.concurrency import get_implementation

from worker.app import WORKER_STEPS
from worker.shared_memory import THRESHOLDS, FreezeBeforeFork


def test_what_is_loaded_is_frozen() -> None:
    """The collector, which would copy all of it into each process, leaves alone what is there before the first fork."""
    before = gc.get_threshold()
    try:
        FreezeBeforeFork(None).create(None)

        assert gc.get_freeze_count() > 1_000
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)


def test_collector_looks_less_often() -> None:
    """What an attempt makes is left to the count of its references; the collector looks at it now and then."""
    before = gc.get_threshold()
    try:
        FreezeBeforeFork(None).create(None)

        assert gc.get_threshold() == THRESHOLDS
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)


@pytest.mark.parametrize("pool,freezes", [("prefork", True), ("threads", False), ("solo", False)])
def test_pools_that_do_not_fork_freeze_nothing(pool: str, freezes: bool) -> None:
    """A pool inside the process leaves it as it is: a program around it may need its garbage collected."""
    worker = SimpleNamespace(pool_cls=get_implementation(pool))

    assert FreezeBeforeFork(None).include_if(worker) is freezes
    assert FreezeBeforeFork in WORKER_STEPS
