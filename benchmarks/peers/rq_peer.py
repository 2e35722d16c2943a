"""RQ: task and producer. Jobs are enqueued in pipelines and run without a fork each; its own results are not kept."""

from collections.abc import Sequence

import rq

from benchmarks import effects, producing


def produce() -> None:
    """Enqueue what the command line asks for."""
    queue = rq.Queue("peer", connection=effects.client(effects.QUEUE_DATABASE))

    def send_many(job_ids: Sequence[str]) -> None:
        queue.enqueue_many([rq.Queue.prepare_data(effects.settle, (job_id,), result_ttl=0) for job_id in job_ids])

    producing.run(send_many)
