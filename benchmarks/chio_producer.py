"""The project's own producer: lines are decoded, validated, admitted and published, as by `chio-worker enqueue`."""

import json
import os
from collections.abc import Sequence

from benchmarks import effects, producing
from reliability.settlement import SettlementObservation
from tasks import enqueue, messages
from worker import bootstrap
from worker.app import create_app

#: How far the observations of one run lie apart in time, in seconds.
_FIRST_FINALIZED_AT = 1_760_000_000


def line(job_id: str) -> bytes:
    """Return an observation of about 400 bytes as a producer would write it."""
    return json.dumps(
        {
            "schema": "chio.settle.observation.v1",
            "receipt_id": job_id,
            "finalized_at": _FIRST_FINALIZED_AT,
            "tenant_id": "tenant-17",
            "tool_server": "tools.example",
            "tool_name": "search",
            "capability_id": "cap-7",
            "amount": {"units": 125, "currency": "EUR"},
            "content_hash": "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "policy_hash": "sha256:60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752",
        }
    ).encode()


def main() -> None:
    """Enqueue what the command line asks for."""
    settings = bootstrap.load_settings()
    app, ledger = create_app(settings), bootstrap.build_storage(settings).jobs
    batch_size = int(os.environ.get(effects.BATCH_SIZE_VARIABLE, "1"))

    def send_many(lines: Sequence[bytes]) -> None:
        observations = map(SettlementObservation.from_json, lines)
        jobs = (messages.admissible_settlement(each, settings.max_payload_bytes) for each in observations)
        enqueue.enqueue_many(app, ledger, jobs, batch_size)

    producing.run_made(send_many, line)


if __name__ == "__main__":
    main()
