"""The template of a rail's status URL: what is accepted, and what becomes of a receipt id in it."""

import pytest

from reliability.errors import ConfigurationError
from tasks.hooks import status_urls


@pytest.mark.parametrize(
    "receipt_id,url",
    [
        ("rcpt-1", "https://rail.example/s/rcpt-1?full=1"),
        ("a/b?c#d%e", "https://rail.example/s/a%2Fb%3Fc%23d%25e?full=1"),
        ("../admin", "https://rail.example/s/..%2Fadmin?full=1"),
    ],
)
def test_an_id_stays_in_its_place(receipt_id: str, url: str) -> None:
    """Whatever an id holds, it is one part of the path."""
    assert status_urls.filled("https://rail.example/s/{receipt_id}?full=1", receipt_id) == url


@pytest.mark.parametrize("receipt_id", [".", ".."])
def test_an_id_that_names_another_place_makes_no_url(receipt_id: str) -> None:
    """A path would be another one with it, so nothing is asked."""
    assert status_urls.filled("https://rail.example/s/{receipt_id}", receipt_id) is None


@pytest.mark.parametrize(
    "template",
    [
        "https://rail.example/status",
        "https://rail.example/{receipt_id}/{receipt_id}",
        "https://{receipt_id}.rail.example/status",
        "https://rail.example/status#{receipt_id}",
        "ftp://rail.example/{receipt_id}",
        "https://user:hunter2@rail.example/{receipt_id}",
    ],
)
def test_a_template_that_cannot_be_used_is_refused(template: str) -> None:
    """The setting is named, and what may be secret in it is not."""
    with pytest.raises(ConfigurationError, match="CHIO_RAIL_STATUS_URL: expected") as refused:
        status_urls.checked_template("CHIO_RAIL_STATUS_URL", template)

    assert "hunter2" not in str(refused.value)


def test_a_usable_template_is_returned() -> None:
    """In the path or in the query, once."""
    template = "https://rail.example/status?of={receipt_id}"

    assert status_urls.checked_template("CHIO_RAIL_STATUS_URL", template) == template
