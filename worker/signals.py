"""
Celery's signals: logging is set up, pool processes leave the process group, and what failed outside a task is kept.

Connected once per process by `worker.app`; every handler finds its app by the task or process that sent the signal.
"""

import logging
import os
from collections.abc import Mapping
from typing import Any, Final

import structlog
from billiard.exceptions import WorkerLostError
from celery import signals

from reliability.errors import StorageUnavailableError
from tasks import raw_message
from worker import envelope, logs, orphans, partner_reload, pool_guard
from worker.composition import Composition
from worker.envelope import Defect

_LOG: Final = structlog.stdlib.get_logger(__name__)


def connect(composition: Composition) -> None:
    """Connect every handler for the app made of these parts; connecting again replaces the handlers."""
    handlers = {
        signals.setup_logging: lambda **_: _begin_program(composition),
        signals.worker_process_init: lambda **_: _begin_process(composition),
        signals.task_internal_error: lambda **found: _keep(composition, found, Defect.INTERNAL_ERROR),
        signals.task_failure: lambda **found: _keep_lost(composition, found),
    }
    for signal, handler in handlers.items():
        # Celery keeps the first receiver of a name, which may belong to an app that was closed.
        signal.disconnect(dispatch_uid=f"chio:{signal.name}")
        signal.connect(handler, weak=False, dispatch_uid=f"chio:{signal.name}")


def _begin_program(composition: Composition) -> None:
    """Prepare what a worker or beat needs before anything else: the first signal that both of them send."""
    # Beat ends at once where its schedule file has no folder.
    composition.settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    logs.configure(composition.settings.log_format, composition.settings.log_level)


def _begin_process(composition: Composition) -> None:
    """Leave the worker's process group, so that a signal to the group ends the worker in order and not its hooks."""
    os.setpgid(0, 0)
    partner_reload.listen_in_pool(composition.settings)
    pool_guard.guard_process()
    orphans.watch_parent(composition.settings.lease_ms / 1000)


def _keep_lost(composition: Composition, found: Mapping[str, Any]) -> None:
    """Keep the message of a task whose process died: its work may not be in the ledger yet."""
    if isinstance(found.get("exception"), WorkerLostError):
        _keep(composition, found, Defect.WORKER_LOST)


def _keep(composition: Composition, found: Mapping[str, Any], defect: Defect) -> None:
    kwargs = found.get("kwargs") or {}
    _LOG.warning("task.lost", task_id=found.get("task_id"), why=defect.value)
    if not envelope.carries_work(kwargs):
        return
    task = found.get("sender")
    try:
        raw = raw_message.task_written_out(str(getattr(task, "name", "")), str(found.get("task_id")), kwargs)
        composition.storage().quarantine.keep(raw, _queue_of(task), defect)
    except StorageUnavailableError:
        logging.getLogger(__name__).critical("a message was lost: the quarantine did not answer")


def _queue_of(task: Any) -> str:
    request = getattr(task, "request", None)
    return str((getattr(request, "delivery_info", None) or {}).get("routing_key", ""))
