"""`deploy/redis/acl.sh`: the server's ACL file out of the shipped users and a deployment's secrets."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.support import secured


def test_a_user_without_a_secret_does_not_exist(tmp_path: Path) -> None:
    """The ACL file has the users whose secrets are there, no other, and no password in the clear."""
    secured.write_secrets(tmp_path / "secrets", "worker", "beat")

    made = subprocess.run([secured.DEPLOY / "acl.sh", tmp_path / "secrets"], capture_output=True, text=True, check=True)

    assert re.findall(r"^user (\S+)", made.stdout, flags=re.MULTILINE) == ["default", "worker", "beat"]
    assert secured.password_of("worker") not in made.stdout
    assert "no secret redis_url_flower" in made.stderr


@pytest.mark.parametrize(
    "url", ["redis://worker:short@h/0", "redis://other:long-enough-password@h/0", "long-enough-pw"]
)
def test_a_secret_that_is_no_url_of_its_user_is_refused(tmp_path: Path, url: str) -> None:
    """A secret with a short password, of another user or of no URL ends the start; the secret is not repeated."""
    (tmp_path / "redis_url_worker").write_text(url)

    made = subprocess.run([secured.DEPLOY / "acl.sh", tmp_path], capture_output=True, text=True, check=False)

    assert made.returncode == 2
    assert "redis_url_worker: expected redis://worker:PASSWORD@HOST:PORT/0" in made.stderr
    assert url not in made.stderr
