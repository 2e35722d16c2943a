"""`deploy/rabbitmq/definitions.sh`: the node's users and rights out of the shipped table and a deployment's secrets."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.worker_process import ROOT

SCRIPT = ROOT / "deploy/rabbitmq/definitions.sh"


def test_a_user_without_a_secret_does_not_exist(tmp_path: Path) -> None:
    """The definitions have the users whose secrets are there and no other, no administrator and no right by default."""
    for user in ("producer", "reader"):
        (tmp_path / f"broker_url_{user}").write_text(f"amqp://{user}:password-of-{user}@rabbitmq:5672//\n")

    made = subprocess.run([SCRIPT, tmp_path], capture_output=True, text=True, check=True)

    found = json.loads(made.stdout)
    rights = {entry["user"]: entry for entry in found["permissions"]}
    assert {(user["name"], user["tags"]) for user in found["users"]} == {("producer", ""), ("reader", "")}
    assert (rights["producer"]["configure"], rights["producer"]["read"]) == ("^$", "^$")
    assert re.search(rights["reader"]["read"], "chio.settle.dead-letter")
    assert not re.search(rights["reader"]["read"], "chio-settle-dead-letter")
    assert "no secret broker_url_worker: there is no user worker" in made.stderr


@pytest.mark.parametrize(
    "url",
    ["amqp://worker:short@h//", "amqp://other:long-enough-password@h//", 'amqp://worker:quote"in-the-password@h//'],
)
def test_a_secret_that_is_no_url_of_its_user_is_refused(tmp_path: Path, url: str) -> None:
    """A secret with a short password, of another user or with other characters ends the start and is not repeated."""
    (tmp_path / "broker_url_worker").write_text(url)

    made = subprocess.run([SCRIPT, tmp_path], capture_output=True, text=True, check=False)

    assert (made.returncode, made.stdout) == (2, "")
    assert "broker_url_worker: expected amqp://worker:PASSWORD@HOST:5672//" in made.stderr
    assert url not in made.stderr
