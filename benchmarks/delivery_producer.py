"""The project's own producer of deliveries: each request is checked against its partner, admitted and published."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks import effects, producing
from reliability.delivery_request import DeliveryRequest
from tasks import delivery_messages, enqueue
from tasks.partners import PartnerDirectory
from worker import bootstrap
from worker.app import create_app

_CREATED_AT: Final = 1_760_000_000


def main() -> None:
    """Enqueue what the command line asks for."""
    settings = bootstrap.load_settings()
    app, ledger = create_app(settings), bootstrap.build_storage(settings).jobs
    directory = PartnerDirectory.load(settings.partners_file or Path(), os.environ)
    batch_size = int(os.environ.get(effects.BATCH_SIZE_VARIABLE, "1"))
    partner_id = os.environ[effects.PARTNER_VARIABLE]

    def request(job_id: str) -> DeliveryRequest:
        return DeliveryRequest.model_validate(
            {
                "message_id": job_id,
                "partner_id": partner_id,
                "content_type": "application/json",
                "body": effects.delivery_body(job_id).encode(),
                "created_at": _CREATED_AT,
            }
        )

    def send_many(job_ids: Sequence[str]) -> None:
        requests = map(request, job_ids)
        jobs = (delivery_messages.admissible_delivery(each, directory, settings.max_payload_bytes) for each in requests)
        enqueue.enqueue_many(app, ledger, jobs, batch_size)

    producing.run(send_many)


if __name__ == "__main__":
    main()
