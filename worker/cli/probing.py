"""The work of `chio-worker health` and `chio-worker doctor`: what is found, shown to a person or as a document."""

import os
from collections.abc import Iterator
from dataclasses import asdict
from typing import Literal

from reliability.clock import SystemClock
from reliability.errors import ConfigurationError
from tasks import publishing
from tasks.partners import PartnerDirectory
from worker import bootstrap, broker_login, doctor, health, settings_checks
from worker.cli import options, output, rows, station
from worker.doctor import Finding, Severity
from worker.settings import Settings

Question = Literal["live", "ready"]


def probe(question: Question, *, as_json: bool) -> int:
    """Answer for every worker that tells of itself in this data directory; none is no."""
    settings, now_ms = bootstrap.load_settings(), SystemClock().now_ms()
    stale_after_ms = settings.health_stale_after_s * 1000
    answers = {
        worker.node: worker.is_live(now_ms, stale_after_ms)
        if question == "live"
        else worker.is_ready(now_ms, stale_after_ms)
        for worker in health.read(settings.data_dir)
    }
    is_yes = bool(answers) and all(answers.values())
    if as_json:
        output.document({question: is_yes, "workers": answers})
    elif not answers:
        output.line(f"no worker tells of itself in {settings.data_dir} (CHIO_DATA_DIR)")
    else:
        output.show(
            rows.facts("Workers", {node: question if yes else f"not {question}" for node, yes in answers.items()})
        )
    return options.EXIT_FINE if is_yes else options.EXIT_REFUSED


def examine(*, as_json: bool) -> int:
    """Run every check of a deployment; only an unsafe finding asks for a change before a worker may start."""
    found = list(_findings())
    is_safe = all(finding.severity is not Severity.UNSAFE for finding in found)
    if as_json:
        output.document({"safe": is_safe, "findings": [asdict(finding) for finding in found]})
    else:
        columns = ("check", "severity", "finding")
        output.show(output.table("Findings", columns, [(f.check, f.severity.value, f.sentence) for f in found]))
        output.line("a worker may start" if is_safe else "a worker refuses to start: change what is unsafe")
    return options.EXIT_FINE if is_safe else options.EXIT_REFUSED


def _findings() -> Iterator[Finding]:
    settings = bootstrap.load_settings()
    found = doctor.examine(settings, SystemClock().now_ms)
    yield from found
    yield from _partners(settings)
    if not any(finding.check == "settings" for finding in found):
        yield from _beats()


def _partners(settings: Settings) -> Iterator[Finding]:
    if settings.partners_file is None:
        return
    try:
        directory = PartnerDirectory.load(settings.partners_file, os.environ)
        problems = settings_checks.partner_problems(settings, directory)
    except ConfigurationError as error:
        problems = [error.problem]
    yield from (Finding(check="partners", severity=Severity.UNSAFE, sentence=problem) for problem in problems)


def _beats() -> Iterator[Finding]:
    app = station.celery_app()
    if refused := broker_login.findings(app):
        yield from refused
        return
    try:
        yield from doctor.beat_findings(app)
    except publishing.publish_errors(app):
        sentence = "The broker does not answer: check CHIO_BROKER_URL, and that the server is up and reachable."
        yield Finding(check="broker", severity=Severity.UNSAFE, sentence=sentence)
