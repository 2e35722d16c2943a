"""What one Celery app is made of; bootsteps, the consumer and signals find their parts here. Made by `worker.app`."""

import time
from collections.abc import Callable, Sequence

import celery

from reliability.clock import SystemClock
from storage.bundle import Storage
from tasks import names
from tasks.runtime import Runtime
from worker import bootstrap, draining, due_pump, envelope, health, outcome_spool, quarantine
from worker.settings import Settings
from worker.settings_checks import uses_redis_broker


class Composition:
    """Hold the parts of one app: settings and cheap parts at once, what connects when it is used."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.storage: Callable[[], Storage] = bootstrap.PerProcess(lambda: bootstrap.build_storage(settings))
        self.runtime: Callable[[], Runtime] = bootstrap.PerProcess(self._build_runtime)
        self.intake = quarantine.QuarantineIntake(
            lambda: self.storage().quarantine, bootstrap.quarantine_spool_of(settings)
        )
        self.pulse = health.Pulse(settings.data_dir, SystemClock().now_ms)
        self.limits = envelope.Limits(
            max_message_bytes=settings.max_message_bytes,
            hard_time_limit_s=settings.hard_time_limit_s,
            max_delay_s=settings.visibility_timeout_s if uses_redis_broker(settings) else None,
        )

    def new_drain(self) -> draining.Drain:
        """Make the state of one worker's end."""
        return draining.Drain(self.settings.soft_shutdown_timeout_s, time.monotonic)

    def pump(self, app: celery.Celery, consumed_queues: Sequence[str]) -> due_pump.DuePump:
        """Make the due pump of a worker that consumes these queues, with connections of its own."""
        settings = self.settings
        storage = bootstrap.build_storage(settings)
        late = outcome_spool.LateRecorder(bootstrap.outcome_spool_of(settings), storage, settings.lease_ms)
        return due_pump.DuePump(
            storage,
            due_pump.CeleryPublisher(app, settings.dead_letter_feed_max_length),
            due_pump.PumpOptions(
                batch=settings.pump_batch,
                pack=settings.batch_size,
                mark_period_ms=settings.mark_period_ms,
                republish_ms=settings.dead_letter_republish_s * 1000,
                queues=[queue for queue in names.JOB_QUEUES if queue in consumed_queues],
                before_waking=late.flush,
            ),
            (self.intake.flush,),
            on_reached=self.pulse.ledger_reached,
        )

    @property
    def pump_period_s(self) -> float:
        """Return the pause between two turns of the pump."""
        return self.settings.pump_period_ms / 1000

    def _build_runtime(self) -> Runtime:
        return bootstrap.build_runtime(self.settings, self.storage())
