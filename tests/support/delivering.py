"""Command lines and lines for tests of deliveries: a partner file in the environment, and what may be said of it."""

import json
from pathlib import Path

import pytest

from tests.support import partner_file
from tests.support.cli import CommandLine, command_line

#: A partner that allows one header, and one that is disabled.
PARTNERS = (
    partner_file.MINIMAL
    + """
allowed_headers = ["x-trace-id"]

[partners.closed]
url = "https://hooks.closed.example/"
secrets = ["env:ACME_NEXT_SECRET"]
disabled = true
"""
)
#: After every expiry of a test, and before every other.
CREATED_AT = 1_700_000_000
FAR_AWAY = 4_000_000_000


def delivering_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path, text: str = PARTNERS
) -> CommandLine:
    """Return a command line on stores in memory whose settings name a partner file."""
    monkeypatch.setenv("CHIO_PARTNERS_FILE", str(partner_file.write(folder, text)))
    for name, secret in partner_file.ENVIRON.items():
        monkeypatch.setenv(name, secret)
    line = command_line(monkeypatch, capsys)
    line.published("delivery")
    return line


def delivery_line(message_id: object = "msg_1", **changes: object) -> bytes:
    """Return one delivery as a line of a file; a change to None leaves the field out."""
    wire: dict[str, object] = {
        "schema": "chio.deliver.request.v1",
        "message_id": message_id,
        "partner_id": "acme",
        "content_type": "application/json",
        "body": '{"n":1}',
        "created_at": CREATED_AT,
        **changes,
    }
    return json.dumps({name: value for name, value in wire.items() if value is not None}).encode() + b"\n"
