"""
Take a delivery's job id apart again; `delivery_request.delivery_job_id` puts it together.

Storage and the receipt flow find a job's partner and message by its id alone.
"""

import re
from dataclasses import dataclass
from typing import Final

from reliability.delivery_request import delivery_job_id
from reliability.errors import InvalidInputError

_JOB_ID: Final = re.compile(r"delivery:(?P<partner>[^:]+):(?P<message>[^:]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryId:
    """Name one message for one partner."""

    partner_id: str
    message_id: str


def parse_delivery_job_id(job_id: str) -> DeliveryId:
    """
    Return the two ids inside `delivery:<partner_id>:<message_id>`.

    Raises:
        InvalidInputError: The text is no job id that `delivery_job_id` makes.

    """
    if found := _JOB_ID.fullmatch(job_id):
        named = DeliveryId(partner_id=_unquoted(found["partner"]), message_id=_unquoted(found["message"]))
        # Only one spelling names a delivery: any other percent sequence was not written by this project.
        if delivery_job_id(named.partner_id, named.message_id) == job_id:
            return named
    raise InvalidInputError("job_id", "expected delivery:<partner_id>:<message_id> with % and : percent-encoded")


def _unquoted(text: str) -> str:
    return text.replace("%3A", ":").replace("%25", "%")
