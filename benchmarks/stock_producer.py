"""Stock Celery's producer: `apply_async` for each job, over one producer that is kept, as its guide advises."""

import os
from collections.abc import Sequence
from typing import Final

from benchmarks import producing, stock

#: Names the task to send in the environment.
TASK_VARIABLE: Final = "BENCHMARK_TASK"


def main() -> None:
    """Enqueue what the command line asks for."""
    task = stock.app.tasks[os.environ[TASK_VARIABLE]]
    with stock.app.producer_pool.acquire(block=True) as producer:

        def send_many(job_ids: Sequence[str]) -> None:
            for job_id in job_ids:
                task.apply_async((job_id,), producer=producer)

        producing.run(send_many)


if __name__ == "__main__":
    main()
