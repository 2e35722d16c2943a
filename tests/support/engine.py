"""
A Docker engine for tests, and the images that `tests/containers/make_images.sh` made on it.

Without an engine the tests that need one are skipped with the reason; on CI they fail.
"""

import os
import subprocess
from typing import Final

import pytest

WORKER: Final = "chio-test/worker:latest"
REDIS: Final = "chio-test/redis:latest"
RABBITMQ: Final = "chio-test/rabbitmq:latest"
_ANSWER_LIMIT_S: Final = 20


def require() -> None:
    """Skip the calling test where no engine answers or an image is missing; on CI both have to be there."""
    if reason := _missing():
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)


def _missing() -> str:
    if not _succeeds("version"):
        return "no Docker engine answers; start one and name it in DOCKER_HOST"
    absent = [image for image in (WORKER, REDIS, RABBITMQ) if not _succeeds("image", "inspect", image)]
    return f"there is no image {absent[0]}; make it with tests/containers/make_images.sh" if absent else ""


def _succeeds(*arguments: str) -> bool:
    try:
        ran = subprocess.run(["docker", *arguments], capture_output=True, check=False, timeout=_ANSWER_LIMIT_S)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return False
    return ran.returncode == 0
