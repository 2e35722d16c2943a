"""
A Docker engine for tests, and the images that `tests/containers/make_images.sh` made on it.

Without an engine the tests that need one are skipped with the reason; on CI they fail.
"""

import os
from typing import Final

import docker
import pytest
from docker.errors import DockerException, ImageNotFound

WORKER: Final = "chio-test/worker:latest"
REDIS: Final = "chio-test/redis:latest"
RABBITMQ: Final = "chio-test/rabbitmq:latest"
_ANSWER_LIMIT_S: Final = 10


def require() -> None:
    """Skip the calling test where no engine answers or an image is missing; on CI both have to be there."""
    if reason := _missing():
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)


def _missing() -> str:
    try:
        client = docker.from_env(timeout=_ANSWER_LIMIT_S)
        client.ping()
    except DockerException:
        return "no Docker engine answers; start one and name it in DOCKER_HOST"
    try:
        for image in (WORKER, REDIS, RABBITMQ):
            client.images.get(image)
    except ImageNotFound:
        return f"there is no image {image}; make it with tests/containers/make_images.sh"
    finally:
        client.close()
    return ""
