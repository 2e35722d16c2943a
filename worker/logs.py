"""
Logs: one line per event, its name first, for people or as JSON; this project's lines and those of its libraries alike.

Libraries log whatever they hold, payloads and failure details included (promise P6). Of loggers known to do so only the
text without its values is written, and of any exception only its class and where it came from.
"""

import logging
import re
import sys
import traceback
from collections.abc import MutableMapping
from types import TracebackType
from typing import Any, Final, Literal

import structlog
from structlog.stdlib import ProcessorFormatter

#: Loggers whose lines may hold arguments, results, messages or exceptions' texts.
TELLING_LOGGERS: Final = (
    "celery.app.trace",
    "celery.worker.request",
    "celery.worker.strategy",
    "celery.worker.consumer",
    "celery.worker.control",
    "celery.worker.pidbox",
    "kombu.transport",
    "py.warnings",
)
#: Loggers that repeat at INFO what an event of ours says already: one line per attempt.
_REPEATING_LOGGERS: Final = ("celery.app.trace", "celery.worker.strategy")
#: Lines of the consumer that tell of connections, not of messages.
_CONNECTION_TEXT: Final = re.compile(r"connect|Retr", re.IGNORECASE)
_PLACEHOLDER: Final = re.compile(r"%(\(\w+\))?[-#0-9.]*[a-z]")
_MOST_FRAMES: Final = 8

EventDict = MutableMapping[str, Any]


def configure(log_format: Literal["console", "json"], log_level: str) -> None:
    """Send every line of this process to standard error in the given format."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_formatter(log_format))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(log_level)
    for name in _REPEATING_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    structlog.configure(
        # First of all: a line that nobody will read costs next to nothing.
        processors=[structlog.stdlib.filter_by_level, *_common(), ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def _common() -> list[Any]:
    return [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
        exception_class,
    ]


def _formatter(log_format: Literal["console", "json"]) -> logging.Formatter:
    renderer: Any = structlog.processors.JSONRenderer()
    if log_format == "console":
        renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), timestamp_key="at", sort_keys=False)
    return ProcessorFormatter(
        foreign_pre_chain=[*_common(), text_without_values],
        processors=[ProcessorFormatter.remove_processors_meta, event_first, renderer],
    )


def event_first(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Put the event's name before everything else."""
    return {"event": event.pop("event", ""), **event}


def exception_class(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Replace an exception by its class and the places it passed: its text may be a failure's detail."""
    found = event.pop("exc_info", None)
    kind, _, trace = found if isinstance(found, tuple) else sys.exc_info() if found else (None, None, None)
    if kind is not None:
        event["error"] = kind.__name__
        event["places"] = _places(trace)
    return event


def _places(trace: TracebackType | None) -> str:
    frames = traceback.extract_tb(trace)[-_MOST_FRAMES:]
    return " > ".join(f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in frames)


def text_without_values(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Leave out the values of a line whose logger is known to log what must not be seen."""
    record: logging.LogRecord = event["_record"]
    if not record.name.startswith(TELLING_LOGGERS) or _tells_of_connection(record):
        return event
    data = getattr(record, "data", None)
    if isinstance(data, dict):
        event["task_id"], event["task"] = data.get("id"), data.get("name")
    event["event"] = _PLACEHOLDER.sub("...", str(record.msg)).strip().partition("\n")[0]
    return event


def _tells_of_connection(record: logging.LogRecord) -> bool:
    return record.name.startswith("celery.worker.consumer") and bool(_CONNECTION_TEXT.search(str(record.msg)))
