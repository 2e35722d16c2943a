"""
A RabbitMQ that asks who is there: the users of `deploy/rabbitmq/users.conf`, started as a deployment starts it.

What the node refused to whom is read from its log.
"""

import re
from pathlib import Path
from typing import Final, Literal

from tests.support.rabbit import RabbitServer
from tests.support.worker_process import ROOT

User = Literal["worker", "producer", "operator", "flower", "beat", "reader"]
USERS: Final[tuple[User, ...]] = ("worker", "producer", "operator", "flower", "beat", "reader")
_DEPLOY: Final = ROOT / "deploy/rabbitmq"
_REFUSED: Final = re.compile(r"access to (?P<what>\w+ '[^']*') in vhost '/' refused for user '(?P<who>\w+)'")


class RabbitWithUsers(RabbitServer):
    """Run one node with the shipped users; `url_for` gives the address of one of them."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir, program=_DEPLOY / "start.sh")
        self._secrets = data_dir / "secrets"
        self._secrets.mkdir(parents=True)
        for user in USERS:
            (self._secrets / f"broker_url_{user}").write_text(f"amqp://{user}:{_password_of(user)}@rabbitmq:5672//\n")

    @property
    def url(self) -> str:
        """Return the address of whoever may do most."""
        return self.url_for("worker")

    def url_for(self, user: User) -> str:
        """Return the address with the user's name and password."""
        return f"amqp://{user}:{_password_of(user)}@127.0.0.1:{self.port}//"

    def refused(self, user: User) -> set[str]:
        """Return the queues and exchanges that the node refused to the user so far."""
        log = (self.data_dir / "server.log").read_text(errors="replace")
        return {match["what"] for match in _REFUSED.finditer(log) if match["who"] == user}

    def _environ(self) -> dict[str, str]:
        paths = {"CHIO_SECRETS_DIR": str(self._secrets), "CHIO_RUN_DIR": str(self.data_dir / "run")}
        return {**super()._environ(), **paths}


def _password_of(user: User) -> str:
    return f"password-of-{user}"
