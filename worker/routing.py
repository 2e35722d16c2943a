"""
Which queue a task goes to, and how the queues are declared on either broker.

Settlements, deliveries and housekeeping have their own queues, so that workers can be set aside for one of them and a
backlog of one never delays another. Celery's priorities are not used: on Redis they are four lists read in order.
"""

from typing import Final

from kombu.entity import Exchange, Queue

from tasks import names

#: Which queue each task is sent to unless its sender names another.
ROUTES: Final = {
    names.OBSERVE_SETTLEMENT: {"queue": names.SETTLEMENT_QUEUE},
    names.OBSERVE_SETTLEMENTS: {"queue": names.SETTLEMENT_QUEUE},
    names.SEND_DELIVERY: {"queue": names.DELIVERY_QUEUE},
    names.SEND_DELIVERIES: {"queue": names.DELIVERY_QUEUE},
    names.CONFIRM_DELIVERY: {"queue": names.DELIVERY_QUEUE},
    names.ESCALATE_RECONCILIATION: {"queue": names.HOUSEKEEPING_QUEUE},
}
#: Every queue a worker consumes unless told otherwise.
QUEUES: Final = (*names.JOB_QUEUES, names.HOUSEKEEPING_QUEUE)
#: RabbitMQ delays messages through topic exchanges only.
_EXCHANGE: Final = "chio"


def redis_queues() -> tuple[Queue, ...]:
    """Declare the queues with direct exchanges: messages go to the list by its name, so no binding can get lost."""
    return tuple(Queue(name, Exchange(name, type="direct"), routing_key=name) for name in QUEUES)


def quorum_queues() -> tuple[Queue, ...]:
    """Declare replicated queues on one topic exchange."""
    exchange = Exchange(_EXCHANGE, type="topic")
    arguments = {"x-queue-type": "quorum"}
    return tuple(Queue(name, exchange, routing_key=name, queue_arguments=arguments) for name in QUEUES)
