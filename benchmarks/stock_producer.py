"""Stock Celery's producer: `apply_async` for each job, over one producer that is kept, as its guide advises."""

import os
from collections.abc import Sequence

from benchmarks import effects, producing, stock


def main() -> None:
    """Enqueue what the command line asks for."""
    task = stock.app.tasks[os.environ[effects.TASK_VARIABLE]]
    receiver = os.environ.get(effects.RECEIVER_VARIABLE)
    with stock.app.producer_pool.acquire(block=True) as producer:

        def send_many(job_ids: Sequence[str]) -> None:
            for job_id in job_ids:
                arguments = (receiver, effects.delivery_body(job_id)) if receiver else (job_id,)
                task.apply_async(arguments, producer=producer)

        producing.run(send_many)


if __name__ == "__main__":
    main()
