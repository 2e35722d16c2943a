"""What a log line looks like, and what never stands in one."""

import io
import json
import logging
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog

from reliability.events import Event
from tasks.emit import emit
from worker import logs

SECRET = "4929-1234-5678-9012"

Lines = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lines]:
    """Configure logging as a worker does, on a stream of the test's own, and undo it afterwards."""
    root = logging.getLogger()
    before, stream = (root.handlers, root.level), io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    logs.configure("json", "INFO")
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    root.handlers, root.level = before
    structlog.reset_defaults()


def test_an_events_name_comes_first(lines: Lines) -> None:
    """The line begins with the event's name, and its fields follow in their order."""
    structlog.stdlib.get_logger("t").info("settlement.settled", job_id="rcpt-1", attempt=0)

    (line,) = lines()
    assert list(line)[:3] == ["event", "job_id", "attempt"]
    assert (line["event"], line["level"]) == ("settlement.settled", "info")


def test_every_event_can_be_emitted(lines: Lines) -> None:
    """The project's own events pass through the same configuration."""
    emit(Event.JOB_HELD, job_id="rcpt-1")

    assert lines()[-1]["event"] == "job.held"


@pytest.mark.parametrize(
    "logger,template,values",
    [
        ("celery.app.trace", "Task %(name)s[%(id)s] raised: %(exc)s", ({"name": "n", "id": "i", "exc": SECRET},)),
        ("celery.worker.request", "Task handler raised error: %r", (ValueError(SECRET),)),
        ("celery.worker.consumer.consumer", "Received and deleted unknown message: %s", (SECRET,)),
        ("kombu.transport.redis", "Could not restore message: %r", ({"body": SECRET},)),
        ("py.warnings", "%s", (f"RuntimeWarning: Exception raised outside body: {SECRET}",)),
    ],
)
def test_libraries_do_not_tell_what_they_hold(
    lines: Lines, logger: str, template: str, values: tuple[object, ...]
) -> None:
    """Of a logger that may hold payloads or details, only the text around the values is written."""
    logging.getLogger(logger).warning(template, *values)

    assert len(lines()) == 1
    assert SECRET not in json.dumps(lines())


def test_an_exception_is_its_class_and_places(lines: Lines) -> None:
    """An exception's text may be a failure's detail, so its class and the lines it passed stand for it."""
    try:
        int(SECRET)
    except ValueError:
        logging.getLogger("somebody").exception("it went wrong")

    (line,) = lines()
    assert line["error"] == "ValueError"
    assert line["places"].startswith("test_logs.py:")
    assert SECRET not in json.dumps(line)


def test_connections_are_told(lines: Lines) -> None:
    """Lines about connections keep their values: an operator needs the address."""
    logging.getLogger("celery.worker.consumer.connection").info("Connected to %s", "redis://h:6379/0")

    assert lines()[0]["event"] == "Connected to redis://h:6379/0"
