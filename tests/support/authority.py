"""
A private certificate authority for tests of TLS, made with `openssl` for one test and thrown away with its folder.

It vouches for hosts by name or address; a server that it does not vouch for gets a certificate of another authority.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

_DAYS = "2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """Hold the files of one server: its certificate, its key, and who vouches for it."""

    chain: Path
    key: Path
    authority: Path


def require() -> None:
    """Skip the calling test where openssl is not installed; on CI it has to be."""
    if shutil.which("openssl"):
        return
    reason = "openssl is not installed; on Debian: apt-get install openssl"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


class Authority:
    """Vouch for servers; everything it makes is in `directory`."""

    def __init__(self, directory: Path) -> None:
        require()
        directory.mkdir(parents=True)
        self._directory = directory
        self.certificate = directory / "authority.crt"
        self._key = directory / "authority.key"
        subject = ("-subj", "/CN=Test authority", "-days", _DAYS)
        _openssl("req", "-x509", *_new_key(self._key), "-out", str(self.certificate), *subject)

    def vouch_for(self, host: str) -> Certificate:
        """Return a certificate for a host's name or address."""
        chain, key = self._directory / f"{host}.crt", self._directory / f"{host}.key"
        kind = "IP" if host.replace(".", "").isdigit() else "DNS"
        _openssl(
            "req",
            "-x509",
            *_new_key(key),
            *("-CA", str(self.certificate), "-CAkey", str(self._key)),
            *("-out", str(chain), "-subj", f"/CN={host}", "-days", _DAYS),
            *("-addext", f"subjectAltName={kind}:{host}", "-addext", "basicConstraints=critical,CA:FALSE"),
        )
        return Certificate(chain=chain, key=key, authority=self.certificate)


def _new_key(path: Path) -> tuple[str, ...]:
    return ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", str(path))


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=60)
