"""
Stock Celery, doing the same work: what a team writes first, set up as Celery's guide on optimising advises.

Short tasks are prefetched by the dozen, results are ignored, workers run without gossip, mingling and heartbeats.
"""

from typing import Final

import celery
import requests

from benchmarks import effects

#: Between the tries of a job that fails, as this project's workers are told too, in seconds.
RETRY_COUNTDOWN_S: Final = 0.2
#: How long a parked retry waits, in seconds.
PARKED_COUNTDOWN_S: Final = 3_600
_REQUEST_TIMEOUT_S: Final = 10

app = celery.Celery("stock")
app.conf.update(
    broker_url=effects.url(),
    task_ignore_result=True,
    worker_prefetch_multiplier=64,
    task_default_queue="stock",
    broker_transport_options={"visibility_timeout": 2 * PARKED_COUNTDOWN_S},
    broker_connection_retry_on_startup=True,
)


@app.task(name="stock.settle_only_dedup")
def settle_only_dedup(job_id: str) -> None:
    """Drop duplicates and do nothing."""
    effects.settle_only_dedup(job_id)


@app.task(name="stock.settle")
def settle(job_id: str) -> None:
    """Drop duplicates, do nothing, record the result."""
    effects.settle(job_id)


@app.task(name="stock.fail_twice", bind=True, max_retries=effects.FAILURES)
def fail_twice(self: celery.Task, job_id: str) -> None:
    """Fail on the first two tries, then record the result."""
    if effects.fails(job_id):
        raise self.retry(countdown=RETRY_COUNTDOWN_S)
    effects.record(job_id)


@app.task(name="stock.park", bind=True, max_retries=5)
def park(self: celery.Task, job_id: str) -> None:
    """Fail and come again in an hour."""
    del job_id
    raise self.retry(countdown=PARKED_COUNTDOWN_S)


@app.task(
    name="stock.post",
    autoretry_for=(requests.RequestException,),
    retry_backoff=True,
    retry_kwargs={"max_retries": 5},
)
def post(url: str, body: str) -> None:
    """Post the body, with retries."""
    headers = {"content-type": "application/json"}
    requests.post(url, data=body.encode(), headers=headers, timeout=_REQUEST_TIMEOUT_S).raise_for_status()
