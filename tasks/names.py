"""Every name on the wire: tasks, queues and headers. They change only by adding a new version beside the old one."""

from typing import Final

from storage.jobs import JobKind

OBSERVE_SETTLEMENT: Final = "chio.settle.observe"
OBSERVE_SETTLEMENTS: Final = "chio.settle.observe_many"
SEND_DELIVERY: Final = "chio.deliver.send"
SEND_DELIVERIES: Final = "chio.deliver.send_many"
CONFIRM_DELIVERY: Final = "chio.deliver.confirm"
ESCALATE_RECONCILIATION: Final = "chio.reconcile.escalate"
#: Internal: carries a queue's watermark through the queue.
MARK_QUEUE: Final = "chio.ledger.mark"

SETTLEMENT_QUEUE: Final = "settlement"
DELIVERY_QUEUE: Final = "delivery"
HOUSEKEEPING_QUEUE: Final = "housekeeping"
#: The queues whose messages are wake-ups of ledger rows; each carries a watermark.
JOB_QUEUES: Final = (SETTLEMENT_QUEUE, DELIVERY_QUEUE)

#: The feed of dead letters for other systems: canonical bytes, one message a record.
DEAD_LETTER_QUEUE: Final = "chio.settle.dead-letter"
#: The message header that names the schema of a dead letter's body.
SCHEMA_HEADER: Final = "schema"

#: Which task runs one attempt of a job of this kind.
TASK_OF_KIND: Final = {JobKind.SETTLEMENT: OBSERVE_SETTLEMENT, JobKind.DELIVERY: SEND_DELIVERY}
#: Which task runs attempts of many jobs of this kind.
BATCH_TASK_OF_KIND: Final = {JobKind.SETTLEMENT: OBSERVE_SETTLEMENTS, JobKind.DELIVERY: SEND_DELIVERIES}
