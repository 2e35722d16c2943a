"""
What may be shown of a task: ids, numbers and codes (promise P6).

Celery shows arguments, results, exceptions and tracebacks in events, in Flower and in logs, and takes the arguments'
text from headers that foreign producers write. All of it passes through here instead.
"""

from collections.abc import Mapping
from typing import Any, Final

from celery.app.events import Events
from celery.events.dispatcher import EventDispatcher
from celery.events.receiver import EventReceiver

from reliability.errors import InvalidInputError
from tasks import messages, shown

#: Where a foreign producer's whole work carries its id.
_ID_FIELDS: Final = ("receipt_id", "message_id", "partner_id")
#: Fields of task events that repeat what hooks raise or return.
_DROPPED_FIELDS: Final = ("traceback", "result")
_UNSHOWN: Final = {"args": "()", "kwargs": "{}"}


def shown_arguments(kwargs: object) -> str:
    """Return the text that stands for a message's keyword arguments wherever people see it."""
    if not isinstance(kwargs, Mapping):
        return "{}"
    found = {name: value for name, value in shown.plain(kwargs).items() if _is_plain(value)} | shown.count(kwargs)
    for value in kwargs.values():
        if isinstance(value, Mapping):
            found |= {name: value[name] for name in _ID_FIELDS if _is_plain(value.get(name))}
    return repr(found)


def _is_plain(value: object) -> bool:
    """Tell whether the value is a number or can stand in a header, as ids do; anything else may be payload."""
    if isinstance(value, int):
        return True
    if not isinstance(value, str):
        return False
    try:
        messages.check_header_safe("id", value)
    except InvalidInputError:
        return False
    return True


def shown_exception(text: object) -> str:
    """Return the class of an exception whose text is `Name(...)`; the rest may be a failure's detail."""
    name = str(text).partition("(")[0]
    return name if name.isidentifier() else "Exception"


def shown_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a task event's fields without what hooks raised or returned."""
    shown = {name: value for name, value in fields.items() if name not in _DROPPED_FIELDS}
    if "exception" in shown:
        shown["exception"] = shown_exception(shown["exception"])
    return shown


class RedactingDispatcher(EventDispatcher):  # type: ignore[misc]  # Celery ships no types
    """Send events without payloads and details; Flower and any other monitor get nothing else."""

    def send(self, type: str, *args: Any, **fields: Any) -> Any:  # noqa: A002  # Celery's own name
        """Send the event with what may be shown of it."""
        return super().send(type, *args, **(shown_fields(fields) if type.startswith("task-") else fields))

    def publish(self, type: str, fields: Mapping[str, Any], *args: Any, **options: Any) -> Any:  # noqa: A002  # as above
        """Tell that a producer sent a task; its arguments are told when a worker has received it."""
        return super().publish(type, {**fields, **_UNSHOWN} if type == "task-sent" else fields, *args, **options)


class RedactingReceiver(EventReceiver):  # type: ignore[misc]  # as above
    """Receive events without what other programs put into theirs; Flower is such a receiver."""

    def event_from_message(self, *args: Any, **options: Any) -> tuple[str, dict[str, Any]]:
        """Return the event's type and what may be shown of it."""
        kind, event = super().event_from_message(*args, **options)
        if kind == "task-sent":
            event |= _UNSHOWN
        return kind, shown_fields(event) if kind.startswith("task-") else event


class RedactingEvents(Events):  # type: ignore[misc]  # as above
    """Name the dispatcher and the receiver that Celery makes."""

    dispatcher_cls = f"{__name__}:RedactingDispatcher"
    receiver_cls = f"{__name__}:RedactingReceiver"
