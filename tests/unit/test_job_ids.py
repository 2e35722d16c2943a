"""Job ids and the reconciliation keys that belong to them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reliability.reconciliation import ReconciliationReason
from storage import job_ids
from tests.support import builders

ids = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


@given(partner_id=ids, message_id=ids)
def test_delivery_id_is_taken_apart_again(partner_id: str, message_id: str) -> None:
    """Any partner and message come back from their job id."""
    assert job_ids.delivery_of(job_ids.delivery_job_id(partner_id, message_id)) == (partner_id, message_id)


@pytest.mark.parametrize(
    "job_id",
    ["rcpt-1", "delivery:acme", "delivery::msg", "delivery:acme:", "delivery:a:b:c", "delivery:a%zz:b", "Delivery:a:b"],
)
def test_other_ids_are_no_delivery(job_id: str) -> None:
    """An id of another form, or with another spelling, is not taken for a delivery."""
    assert job_ids.delivery_of(job_id) is None


def test_request_names_its_job() -> None:
    """A delivery's request leads to its delivery, a settlement's to its receipt."""
    assert job_ids.job_of(builders.pending("m:1", "acme")) == "delivery:acme:m%3A1"
    assert job_ids.job_of(builders.pending("rcpt-1", "settlement")) == "rcpt-1"


@pytest.mark.parametrize("request_of", [builders.pending, builders.indeterminate])
def test_open_keys_of_a_job_are_known(request_of: object) -> None:
    """Whatever a job may have queued is among its keys, for deliveries and for settlements."""
    assert callable(request_of)
    delivery, settlement = request_of("m:1", "acme"), request_of("rcpt-1", "settlement")

    assert delivery.idempotency_key in job_ids.reconciliation_keys("delivery:acme:m%3A1")
    assert settlement.idempotency_key in job_ids.reconciliation_keys("rcpt-1")


def test_settlement_has_a_key_for_each_reason() -> None:
    """A receipt id has exactly two possible entries."""
    assert len(job_ids.reconciliation_keys("rcpt-1")) == len(ReconciliationReason)
