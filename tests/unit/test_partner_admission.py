"""Which deliveries are admitted, and what of a refused one is named."""

from pathlib import Path

import pytest

from reliability.delivery_request import DeliveryRequest
from reliability.errors import InvalidInputError
from storage.jobs import JobKind, NewJob
from tasks import names
from tasks.delivery_messages import admissible_delivery
from tests.support import partner_file
from tests.support.partner import request


def admitted(
    folder: Path,
    delivery: DeliveryRequest,
    terms: str = "",
    *,
    max_payload_bytes: int = 10_000,
    now_s: int | None = None,
) -> NewJob:
    """Admit a delivery for a partner with these terms."""
    directory = partner_file.directory(folder, partner_file.MINIMAL + terms)
    return admissible_delivery(delivery, directory, max_payload_bytes, now_s=now_s)


def refusal(folder: Path, delivery: DeliveryRequest, terms: str = "", **limits: int) -> InvalidInputError:
    """Return why a delivery is not admitted."""
    with pytest.raises(InvalidInputError) as refused:
        admitted(folder, delivery, terms, **limits)
    return refused.value


def test_delivery_becomes_a_job(tmp_path: Path) -> None:
    """The job has the id of its partner and message, the canonical bytes and the creation time."""
    delivery = request("m:1")

    job = admitted(tmp_path, delivery)

    assert job == NewJob(
        job_id="delivery:acme:m%3A1",
        kind=JobKind.DELIVERY,
        queue=names.DELIVERY_QUEUE,
        payload=delivery.canonical_json(),
        finalized_at=1_700_000_000,
    )


def test_unknown_partner_is_refused(tmp_path: Path) -> None:
    """A partner nobody configured is named, with what to do."""
    error = refusal(tmp_path, request(partner_id="nobody"))

    assert (error.field, error.problem) == ("partner_id", "no partner 'nobody' is configured; add it, or correct it")


def test_disabled_partner_is_refused(tmp_path: Path) -> None:
    """Nothing is admitted for a partner that its file disables."""
    assert "is disabled in the partner file" in str(refusal(tmp_path, request(), "disabled = true"))


def test_header_that_the_partner_does_not_allow_is_refused(tmp_path: Path) -> None:
    """Headers are named, values are not."""
    error = refusal(
        tmp_path, request(headers={"x-trace": "secret-value", "x-tenant": "t"}), 'allowed_headers = ["x-tenant"]'
    )

    assert error.problem == "partner 'acme' does not allow x-trace; see allowed_headers"


def test_allowed_header_is_admitted(tmp_path: Path) -> None:
    """A header on the partner's list is part of the stored bytes."""
    job = admitted(tmp_path, request(headers={"x-trace": "t-1"}), 'allowed_headers = ["x-trace"]')

    assert DeliveryRequest.from_json(job.payload).headers == {"x-trace": "t-1"}


def test_payload_past_the_limit_is_refused(tmp_path: Path) -> None:
    """The limit and the size are named before anything reaches a server."""
    assert "expected at most 100 bytes" in str(refusal(tmp_path, request(body=b"x" * 200), max_payload_bytes=100))


def test_job_id_past_the_limit_is_refused(tmp_path: Path) -> None:
    """Two long ids, or one full of colons, can make a job id that no message carries."""
    assert refusal(tmp_path, request("m" * 190)).field == "job_id"
    assert refusal(tmp_path, request(":" * 70)).field == "job_id"


@pytest.mark.parametrize("now_s, is_refused", [(1_700_000_059, False), (1_700_000_060, True), (None, False)])
def test_expired_delivery_is_refused(tmp_path: Path, now_s: int | None, *, is_refused: bool) -> None:
    """A delivery past its expiry is refused where the time is known."""
    delivery = request(expires_at=1_700_000_060)

    if is_refused:
        with pytest.raises(InvalidInputError, match="the delivery has expired"):
            admitted(tmp_path, delivery, now_s=now_s)
    else:
        assert admitted(tmp_path, delivery, now_s=now_s).kind is JobKind.DELIVERY
