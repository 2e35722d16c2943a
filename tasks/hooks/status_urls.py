"""The URL under which a rail tells what became of a receipt: a template with the receipt id in one place."""

from typing import Final
from urllib.parse import quote, urlsplit

from reliability.errors import ConfigurationError
from tasks.hooks import http_url

PLACEHOLDER: Final = "{receipt_id}"
_SAMPLE: Final = "rcpt-1"
#: In a path these name another place, however they are written.
_STEPS: Final = frozenset({".", ".."})


def checked_template(setting: str, template: str) -> str:
    """
    Return the template if every receipt id makes a URL of it; `setting` is named in the error.

    Raises:
        ConfigurationError: With what is wrong and what to do.

    """
    # In the host it would let an id choose where the question goes.
    where = urlsplit(template)
    if template.count(PLACEHOLDER) != 1 or PLACEHOLDER not in f"{where.path}?{where.query}":
        raise ConfigurationError(f"{setting}: expected {PLACEHOLDER} once, in the path or after the question mark")
    http_url.checked_url(setting, template.replace(PLACEHOLDER, _SAMPLE))
    return template


def filled(template: str, receipt_id: str) -> str | None:
    """Return the URL of one receipt, percent-encoded where that is needed; None for an id that no URL can hold."""
    if receipt_id in _STEPS:
        return None
    return template.replace(PLACEHOLDER, quote(receipt_id, safe=""))
