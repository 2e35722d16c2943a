"""Where a partner's secrets come from, and that no message shows one."""

from pathlib import Path

import pytest

from reliability.errors import ConfigurationError
from tasks.hooks import webhook_signature
from tasks.partner_secrets import SigningSecret, Sources
from tasks.partner_terms import Partner
from tests.support import partner_file


def refusal(folder: Path, text: str) -> str:
    """Load a file that must be refused and return the message."""
    with pytest.raises(ConfigurationError) as refused:
        partner_file.directory(folder, text)
    return str(refused.value)


def acme(folder: Path, terms: str) -> Partner:
    """Load the minimal partner with further terms."""
    partner = partner_file.directory(folder, partner_file.MINIMAL + terms).get("acme")
    assert partner is not None
    return partner


@pytest.mark.parametrize(
    "secrets, problem",
    [
        ("[]", "secrets: expected 1 reference"),
        ('["env:ACME_SECRET", "env:ACME_SECRET", "env:ACME_SECRET"]', "secrets: expected 1 reference, or 2"),
        ('["env:MISSING"]', "secrets.0: env:MISSING is not set"),
        ('["file:missing"]', "secrets.0: file:missing cannot be read: No such file or directory"),
        (f'["{partner_file.SECRET}"]', "secrets.0: expected env:NAME or file:PATH; keep the secret itself out"),
        ("[5]", "secrets.0: expected a string"),
        ('"env:ACME_SECRET"', "secrets"),
    ],
)
def test_secret_that_is_not_there_is_refused(tmp_path: Path, secrets: str, problem: str) -> None:
    """A secret is named by a reference that leads somewhere, and is never shown."""
    message = refusal(tmp_path, f'[partners.acme]\nurl = "https://hooks.acme.example/"\nsecrets = {secrets}')

    assert problem in message
    assert partner_file.SECRET not in message


@pytest.mark.parametrize(
    "text, problem",
    [
        ("whsec_not base64!", "expected whsec_ and base64"),
        ("whsec_c2hvcnQ=", "expected 24 to 64 bytes after decoding, got 5"),
        ("whsec_" + "QUFB" * 30, "expected 24 to 64 bytes after decoding, got 90"),
    ],
)
def test_text_that_signs_nothing_is_no_secret(tmp_path: Path, text: str, problem: str) -> None:
    """A secret has the length and the form that Standard Webhooks gives it."""
    (tmp_path / "secret").write_text(text)

    with pytest.raises(ValueError, match="is no secret") as refused:
        SigningSecret.resolve("file:secret", Sources(folder=tmp_path))

    assert problem in str(refused.value)
    assert text not in str(refused.value)


def test_secret_comes_from_a_file_beside_the_partner_file(tmp_path: Path) -> None:
    """A relative path begins at the partner file's folder, and a line feed at the end does not count."""
    (tmp_path / "acme.secret").write_text(f"{partner_file.SECRET}\n")

    partner = partner_file.directory(tmp_path, partner_file.MINIMAL.replace("env:ACME_SECRET", "file:acme.secret"))

    body, headers = b"{}", webhook_signature.signed_headers(partner.partners["acme"].secrets, "m", 1, b"{}")
    assert partner.is_signed_by("acme", headers, body)


def test_secret_is_in_no_repr(tmp_path: Path) -> None:
    """What is shown of a partner names where its secret is and not what it is."""
    shown = repr(acme(tmp_path, ""))

    assert "env:ACME_SECRET" in shown
    assert partner_file.SECRET not in shown
