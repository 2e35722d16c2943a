"""
What a worker makes sure of between connecting and taking its first message.

Hooks and partners load, settings and servers are safe. What is unsafe ends the worker with exit code 2 and a sentence
each, and so does a server that refuses the worker's user; a ledger that does not answer is waited for, because a
restart would not bring it back.
"""

import threading
from typing import Any, Final

import structlog
from celery import bootsteps
from celery.exceptions import WorkerShutdown

from reliability.clock import SystemClock
from reliability.errors import ConfigurationError, StorageRefusedError, StorageUnavailableError
from worker import broker_login, doctor, routing, settings_checks
from worker.composition import Composition
from worker.doctor import Finding, Severity
from worker.settings import Settings

#: Exit code of a worker whose configuration is unsafe.
EXIT_UNSAFE: Final = 2
#: How often an unreachable ledger is asked again, in seconds.
_PERIOD_S: Final = 1.0

_LOG: Final = structlog.stdlib.get_logger(__name__)


class Doorstep(bootsteps.StartStopStep):  # type: ignore[misc]  # Celery ships no types
    """
    End a worker that a server refuses, or that must not use it, before it consumes.

    Celery would try for ever and without a pause to read from a broker that refuses its user, or that is a cluster.
    """

    def __init__(self, _worker: Any, **_: Any) -> None:
        pass

    def start(self, worker: Any) -> None:
        """Ask once; a server that does not answer is left to the steps that wait for it."""
        found = _asked_once(worker.app.composition.settings)
        found += broker_login.findings(worker.app, routing.quorum_queues())
        unsafe = [finding for finding in found if _is_unsafe(finding)]
        for finding in unsafe:
            _report(finding)
        if unsafe:
            raise WorkerShutdown(EXIT_UNSAFE)


class Preflight(bootsteps.StartStopStep):  # type: ignore[misc]  # Celery ships no types
    """Check once per process, after the first connection and before the first message."""

    requires = ("celery.worker.consumer.connection:Connection",)

    def __init__(self, _consumer: Any, **_: Any) -> None:
        self._passed = False

    def start(self, consumer: Any) -> None:
        """Let the worker go on, wait, or end it."""
        if self._passed:
            return
        found = _when_reachable(consumer.app.composition)
        for finding in found:
            _report(finding)
        if any(_is_unsafe(finding) for finding in found):
            raise WorkerShutdown(EXIT_UNSAFE)
        self._passed = True


def _asked_once(settings: Settings) -> list[Finding]:
    try:
        return doctor.examine(settings, SystemClock().now_ms)
    except StorageRefusedError as error:
        return [Finding(check="user", severity=Severity.UNSAFE, sentence=str(error))]
    except StorageUnavailableError:
        return []


def _when_reachable(composition: Composition) -> list[Finding]:
    from celery.worker import state  # noqa: PLC0415  # heavy, and only workers need it

    pause, is_reported = threading.Event(), False
    while True:
        try:
            return examine(composition)
        except StorageUnavailableError as error:
            if not is_reported:
                _LOG.warning("preflight.ledger_unreachable", operation=error.operation)
                is_reported = True
        # SIGTERM must end a worker that waits.
        state.maybe_shutdown()
        pause.wait(_PERIOD_S)


def examine(composition: Composition) -> list[Finding]:
    """
    Return everything that is wrong with settings, hooks, partners and servers.

    Raises:
        StorageUnavailableError: if a server does not answer.

    """
    settings = composition.settings
    try:
        problems = settings_checks.runtime_problems(settings, composition.runtime())
    except ConfigurationError as error:
        problems = [error.problem]
    unsafe = [Finding(check="hooks", severity=Severity.UNSAFE, sentence=problem) for problem in problems]
    return unsafe + doctor.examine(settings, SystemClock().now_ms, claim=True)


def _is_unsafe(finding: Finding) -> bool:
    return finding.severity is Severity.UNSAFE


def _report(finding: Finding) -> None:
    log = _LOG.error if finding.severity is Severity.UNSAFE else _LOG.warning
    log(f"preflight.{finding.severity.value}", check=finding.check, sentence=finding.sentence)
