"""
Which deliveries are admitted: those whose partner is known and allows what they ask for.

Called where deliveries come in, beside `messages.admissible_settlement`. Everything refused raises with the field and
what to do; nothing is admitted then.
"""

from typing import Final, Protocol

from reliability.delivery_request import DeliveryRequest
from reliability.errors import InvalidInputError
from storage.jobs import JobKind, NewJob
from tasks import messages, names
from tasks.partner_terms import Partner

_SHOWN_HEADERS: Final = 3


class KnownPartners(Protocol):
    """Find a partner by its id."""

    def get(self, partner_id: str) -> Partner | None:
        """Return the partner; None where no partner has this id."""
        ...


def admissible_delivery(
    request: DeliveryRequest, directory: KnownPartners, max_payload_bytes: int, *, now_s: int | None = None
) -> NewJob:
    """
    Turn a request into a job, or refuse it for what its partner, a message or the ledger cannot carry.

    With `now_s` a request that has expired already is refused too.

    Raises:
        InvalidInputError: Naming the field and the limit.

    """
    _check_partner(request, directory.get(request.partner_id))
    if now_s is not None and request.expires_at is not None and request.expires_at <= now_s:
        raise InvalidInputError("expires_at", "expected a time to come; the delivery has expired")
    messages.check_header_safe("job_id", request.job_id)
    payload = request.canonical_json()
    messages.check_size(payload, max_payload_bytes)
    return NewJob(
        job_id=request.job_id,
        kind=JobKind.DELIVERY,
        queue=names.DELIVERY_QUEUE,
        payload=payload,
        finalized_at=request.created_at,
    )


def _check_partner(request: DeliveryRequest, partner: Partner | None) -> None:
    if partner is None:
        raise InvalidInputError("partner_id", f"no partner {request.partner_id!r} is configured; add it, or correct it")
    if partner.disabled:
        raise InvalidInputError("partner_id", f"partner {request.partner_id!r} is disabled in the partner file")
    refused = sorted(set(request.headers) - set(partner.allowed_headers))
    if refused:
        named = ", ".join(refused[:_SHOWN_HEADERS])
        raise InvalidInputError(
            "headers", f"partner {request.partner_id!r} does not allow {named}; see allowed_headers"
        )
