"""
Fill ledger and queue with a million waiting jobs in a minute: rows are admitted in batches, messages copied.

Each message is one that the producer published, with another job's id in the places where ids stand.
"""

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks import chio_producer, effects, ledger_jobs, producing, runs
from benchmarks.bench import Bench
from benchmarks.contenders import Contender
from reliability.settlement import SettlementObservation
from tasks import messages, names

#: Where the broker keeps the queue: its key prefix and the queue's name.
_QUEUE_KEY: Final = f"chio:broker:{names.SETTLEMENT_QUEUE}"
_CHUNK: Final = 1_000
_MAX_PAYLOAD_BYTES: Final = 65_536


def fill(bench: Bench, contender: Contender, count: int, folder: Path) -> None:
    """Make so many jobs wait on a new server, as the contender's producer would."""
    bench.renew()
    runs.enqueue(bench, contender, 1, folder)
    template = bench.client(effects.QUEUE_DATABASE).lindex(_QUEUE_KEY, 0)
    bench.renew()
    client = bench.client(effects.QUEUE_DATABASE)
    ids = [producing.job_id(number, 0) for number in range(count)]
    ledger = ledger_jobs.ledger(bench)
    for chunk in ledger_jobs.chunks(ids, _CHUNK):
        ledger.admit_many([_job(job_id) for job_id in chunk])
        client.lpush(_QUEUE_KEY, *copies(template, chunk))
    # As the first message of a queue would be.
    client.config_resetstat()


def copies(template: bytes, job_ids: Sequence[str]) -> list[bytes]:
    """Return a message for each job, like the template's for its own."""
    message: dict[str, Any] = json.loads(template)
    own_id = message["headers"]["id"]
    body = base64.b64decode(message["body"]).decode()
    outside = json.dumps({**message, "body": ""})
    return [_copy(outside, body, own_id, job_id) for job_id in job_ids]


def _copy(outside: str, body: str, own_id: str, job_id: str) -> bytes:
    message: dict[str, Any] = json.loads(outside.replace(own_id, job_id))
    message["body"] = base64.b64encode(body.replace(own_id, job_id).encode()).decode()
    # What the broker tells deliveries apart by.
    message["properties"]["delivery_tag"] = job_id
    return json.dumps(message).encode()


def _job(job_id: str) -> Any:
    observation = SettlementObservation.from_json(chio_producer.line(job_id))
    return messages.admissible_settlement(observation, _MAX_PAYLOAD_BYTES)
