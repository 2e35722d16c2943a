"""A real Flower with a log-in on a free loopback port, and questions to it."""

import base64
import http.client
from contextlib import closing
from pathlib import Path
from typing import Final

from tests.support import ports
from tests.support.worker_process import ROOT, CelerySubprocess

#: Who may see it: a user, a colon, and a password that has one too.
USER: Final = "operator:pass:word"


class Flower:
    """Hold one Flower, running while `process` is, and ask it."""

    def __init__(self, directory: Path, redis_url: str, **settings: str) -> None:
        self._port = ports.free_port()
        environ = {
            "CHIO_REDIS_URL": redis_url,
            "CHIO_FLOWER_PORT": str(self._port),
            "CHIO_FLOWER_BASIC_AUTH": USER,
            **settings,
        }
        conf = f"--conf={ROOT / 'worker' / 'flowerconfig.py'}"
        self.process = CelerySubprocess(directory, environ, "flower", conf)

    def get(self, path: str, user: str | None = USER, data: bytes | None = None) -> tuple[int, str]:
        """Return status and body; a Flower that is not up yet has status 0."""
        headers = {"Authorization": f"Basic {base64.b64encode(user.encode()).decode()}"} if user else {}
        with closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=5)) as connection:
            try:
                connection.request("GET" if data is None else "POST", path, body=data, headers=headers)
                answer = connection.getresponse()
                return answer.status, answer.read().decode()
            except OSError:
                return 0, ""
