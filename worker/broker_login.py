"""
Whether a RabbitMQ broker takes the user of this process: asked by every worker before it consumes, and by `doctor`.

A Redis broker is asked by `worker.doctor`, as the ledger is. A broker that does not answer is no finding: it is waited
for, while one that refuses would refuse for ever, and Celery would try without a pause.
"""

from collections.abc import Sequence
from typing import Final

import celery
from amqp.exceptions import AccessRefused, AMQPError, NotAllowed, PreconditionFailed
from kombu.entity import Queue

from tasks import publishing
from worker.doctor import Finding, Severity

#: User, password or rights; a virtual host that is not there; a queue of this name of another kind.
_REFUSALS: Final = (AccessRefused, NotAllowed, PreconditionFailed)


def findings(app: celery.Celery, queues: Sequence[Queue] = ()) -> list[Finding]:
    """Log in and declare these queues, as a worker is about to; a refusal is an unsafe finding."""
    connection = app.connection_for_read()
    if connection.transport.driver_type != "amqp":
        return []
    with connection:
        try:
            connection.connect()
            for queue in queues:
                queue(connection.channel()).declare()
        except _REFUSALS as error:
            return [_refused(error)]
        except publishing.publish_errors(app):
            return []
    return []


def _refused(error: AMQPError) -> Finding:
    sentence = (
        f"The broker refused this user ({error.message}): check user, password and virtual host in CHIO_BROKER_URL,"
        " and what the broker permits that user."
    )
    return Finding(check="broker: user", severity=Severity.UNSAFE, sentence=sentence)
