"""Partner files for tests: written with real secrets beside them, so that a directory loads them as in production."""

import base64
from collections.abc import Mapping
from pathlib import Path

from standardwebhooks import Webhook

from tasks.partners import PartnerDirectory

#: Two secrets of 32 bytes, as a rotation has them.
SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
NEXT_SECRET = "whsec_" + base64.b64encode(bytes(range(32, 64))).decode()
ENVIRON: Mapping[str, str] = {"ACME_SECRET": SECRET, "ACME_NEXT_SECRET": NEXT_SECRET}
#: What a partner cannot do without, and nothing else.
MINIMAL = """
[partners.acme]
url = "https://hooks.acme.example/chio"
secrets = ["env:ACME_SECRET"]
"""


def write(folder: Path, text: str) -> Path:
    """Write a partner file and return its path."""
    path = folder / "partners.toml"
    path.write_text(text, encoding="utf-8")
    return path


def directory(folder: Path, text: str = MINIMAL) -> PartnerDirectory:
    """Load a partner file with this text."""
    return PartnerDirectory.load(write(folder, text), ENVIRON)


def webhook(secret: str = SECRET) -> Webhook:
    """Return the library's own signer and verifier for a secret."""
    return Webhook(secret)
