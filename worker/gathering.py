"""
Wake-ups that come together run together: one job of the pool for many messages, each acknowledged on its own.

Handing a job to a pool costs Celery far more than the ledger's work for it. Only plain first attempts are gathered:
whoever has failed before runs alone. While somebody watches the worker's events nothing is gathered, so that a monitor
shows every task.
"""

import functools
import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kombu.message import Message
from kombu.utils.uuid import uuid

from tasks import batch_messages, names, shown
from tasks.messages import MAX_ID_BYTES
from worker.connected_timer import ConnectedTimer

#: The task that runs many of each task.
_TOGETHER: Final[Mapping[object, str]] = {
    names.TASK_OF_KIND[kind]: many for kind, many in names.BATCH_TASK_OF_KIND.items()
}
#: Headers that ask for a time, or for a time limit, of a task's own.
_WISHES: Final = ("eta", "expires", "retries")
#: Celery writes limits that nobody asked for like this.
_NO_LIMITS: Final = (None, [None, None], (None, None))


def is_plain(headers: Mapping[str, object], kwargs: Mapping[str, object]) -> bool:
    """Tell whether a message asks for nothing but the first attempt of an admitted job, now."""
    job_id = kwargs.get("job_id")
    return (
        headers.get("task") in _TOGETHER
        and not any(headers.get(wish) for wish in _WISHES)
        and headers.get("timelimit") in _NO_LIMITS
        and kwargs.keys() <= {"job_id", "attempt"}
        and _is_zero(kwargs.get("attempt", 0))
        and isinstance(job_id, str)
        and 0 < len(job_id) <= MAX_ID_BYTES
    )


def _is_zero(attempt: object) -> bool:
    """Tell a 0 from `false` and `0.0`, which the task refuses."""
    return isinstance(attempt, int) and not isinstance(attempt, bool) and attempt == 0


class GatheredMessage(Message):
    """Stand for messages of one task and queue; what becomes of it becomes of each."""

    def __init__(self, messages: Sequence[Any]) -> None:
        first = messages[0]
        kwargs = {batch_messages.JOBS: [[message.payload[1]["job_id"], 0] for message in messages]}
        task_id = uuid()
        super().__init__(  # type: ignore[no-untyped-call]  # kombu leaves it untyped
            body=json.dumps([(), kwargs, {}]),
            channel=first.channel,
            content_type="application/json",
            content_encoding="utf-8",
            delivery_info=first.delivery_info,
            properties=first.properties,
            headers={
                "id": task_id,
                "root_id": task_id,
                "task": _TOGETHER[first.headers["task"]],
                "argsrepr": "()",
                "kwargsrepr": shown.arguments(kwargs),
            },
        )
        self._messages = messages

    def ack_log_error(self, logger: Any, errors: Any, multiple: bool = False) -> None:  # noqa: FBT001,FBT002  # kombu's own
        """Acknowledge each."""
        for message in self._messages:
            message.ack_log_error(logger, errors, multiple)

    def reject_log_error(self, logger: Any, errors: Any, requeue: bool = False) -> None:  # noqa: FBT001,FBT002  # as above
        """Reject each."""
        for message in self._messages:
            message.reject_log_error(logger, errors, requeue)


class Gathering:
    """Keep plain messages until the main loop has read all that came, then hand them on together."""

    def __init__(
        self, most: int, hand_on: Callable[[Any], object], call_soon: Callable[[Callable[[], None]], Any]
    ) -> None:
        self._most = most
        self._hand_on = hand_on
        self._call_soon = call_soon
        self._kept: defaultdict[tuple[str, str], list[Any]] = defaultdict(list)

    def keep(self, message: Any) -> None:
        """Keep a plain message."""
        if not self._kept:
            self._call_soon(self.hand_on)
        key = message.headers["task"], str((message.delivery_info or {}).get("routing_key"))
        self._kept[key].append(message)
        if len(self._kept[key]) == self._most:
            self._hand_on_together(self._kept.pop(key))

    def hand_on(self) -> None:
        """Hand on what is kept."""
        kept, self._kept = self._kept, defaultdict(list)
        for messages in kept.values():
            self._hand_on_together(messages)

    def _hand_on_together(self, messages: Sequence[Any]) -> None:
        self._hand_on(messages[0] if len(messages) == 1 else GatheredMessage(messages))


class PrefetchWindow(ConnectedTimer):
    """Hold as many messages as can be gathered, and few while each runs alone: others may have time for them."""

    requires = ("celery.worker.consumer.tasks:Tasks",)
    period_s = 1.0

    def __init__(self, consumer: Any, **options: Any) -> None:
        super().__init__(consumer, **options)
        self._is_wide = True

    def due(self, consumer: Any) -> Callable[[], object]:
        """Look; a new connection begins with a wide window."""
        self._is_wide = True
        return functools.partial(self.look, consumer)

    def look(self, consumer: Any) -> None:
        """Narrow or widen the window if somebody began or ceased to watch."""
        if self._is_wide == consumer.gathers:
            return
        self._is_wide = consumer.gathers
        multiplier = consumer.app.conf.worker_prefetch_multiplier
        difference = consumer.pool.num_processes * (multiplier - 1)
        change = consumer.qos.increment_eventually if self._is_wide else consumer.qos.decrement_eventually
        change(difference)
