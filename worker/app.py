"""
The Celery app. `celery -A worker.app worker` finds `app` here; the command line and tests make their own.

Importing this module does nothing; the first look at `app` reads the settings. Neither connects to anything.
"""

import functools
import sys
from typing import Any, Final

import celery

from reliability.errors import ConfigurationError
from tasks import (
    confirm_delivery,
    escalate_reconciliation,
    mark_queue,
    observe_settlement,
    observe_settlements,
    send_deliveries,
    send_delivery,
)
from worker import (
    bootstrap,
    broker_transport,
    celery_config,
    draining,
    due_pump,
    gathering,
    health,
    partner_reload,
    pool_guard,
    preflight,
    redbeat_config,
    settings_checks,
    shared_memory,
    signals,
    timer_sweep,
)
from worker.composition import Composition
from worker.settings import Settings

#: Every task a worker runs.
TASKS: Final = (
    observe_settlement.ObserveSettlement,
    observe_settlements.ObserveSettlements,
    send_delivery.SendDelivery,
    send_deliveries.SendDeliveries,
    confirm_delivery.ConfirmDelivery,
    escalate_reconciliation.EscalateReconciliation,
    mark_queue.MarkQueue,
)
#: What runs beside the worker's main loop, and what begins with each of its connections.
WORKER_STEPS: Final[tuple[Any, ...]] = (
    preflight.Doorstep,
    partner_reload.ReloadOnHup,
    due_pump.PumpThread,
    health.PulseThread,
    draining.DrainOnTerm,
    shared_memory.FreezeBeforeFork,
)
CONSUMER_STEPS: Final[tuple[Any, ...]] = (
    health.ConsumerPulse,
    draining.DrainTimer,
    gathering.PrefetchWindow,
    preflight.Preflight,
    pool_guard.ReplaceLost,
    timer_sweep.SweepTimers,
)


class WorkerApp(celery.Celery):  # type: ignore[misc]  # Celery ships no types
    """A Celery app that carries its parts: bootsteps and the consumer find them at `composition`."""

    def __init__(self, settings: Settings, **options: Any) -> None:
        super().__init__("chio", events="worker.redaction:RedactingEvents", **options)
        self.composition = Composition(settings)


def create_app(settings: Settings) -> WorkerApp:
    """
    Make the app; connects to nothing.

    Raises:
        ConfigurationError: if settings cannot work together.

    """
    settings_checks.refuse_unusable(settings)
    broker_transport.register()
    broker_transport.refuse_compression()
    app = WorkerApp(settings)
    app.conf.update(celery_config.celery_settings(settings, bootstrap.broker_url(settings)))
    if settings.beat_scheduler == "redbeat":
        app.conf.update(redbeat_config.redbeat_settings(settings, bootstrap.redis_url(settings)))
    for task in TASKS:
        made = task(app.composition.runtime)
        # By name: the class is heavy, and only workers need it.
        made.Request = "worker.lost_requests:ReturningRequest"
        app.register_task(made)
    app.steps["worker"].update(WORKER_STEPS)
    app.steps["consumer"].update(CONSUMER_STEPS)
    signals.connect(app.composition)
    return app


def __getattr__(name: str) -> object:
    """Make `app` when Celery's command looks for it."""
    if name != "app":
        raise AttributeError(name)
    return _app()


@functools.cache
def _app() -> WorkerApp:
    try:
        return create_app(bootstrap.load_settings())
    except ConfigurationError as error:
        # Celery's command would show a traceback of fifty lines around these sentences.
        sys.stderr.write(f"{error}\n")
        sys.exit(2)
