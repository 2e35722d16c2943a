"""
A message written out as bytes: the form in which the quarantine keeps it and can publish it again, whatever the broker.

It is the list element that kombu's Redis transport would have made of it.
"""

import base64
import json
from collections.abc import Mapping
from typing import Final

_CONTENT: Final = {"content-type": "application/json", "content-encoding": "utf-8"}


def written_out(body: object, headers: object, properties: object, content: Mapping[str, object]) -> bytes:
    """Write a message as it came from the broker."""
    data = body if isinstance(body, bytes) else str(body or "").encode()
    envelope = {
        "body": base64.b64encode(data).decode(),
        "headers": headers,
        "properties": {**(properties if isinstance(properties, dict) else {}), "body_encoding": "base64"},
        **content,
    }
    return json.dumps(envelope, default=repr).encode()


def task_written_out(task: str, task_id: str, kwargs: Mapping[str, object]) -> bytes:
    """Write a message that calls a task, from what is left of it once Celery has taken it apart."""
    body = json.dumps([[], dict(kwargs), {}], default=repr).encode()
    return written_out(body, {"lang": "py", "task": task, "id": task_id}, {}, _CONTENT)


def arguments_of(raw: bytes) -> object:
    """Return the keyword arguments of a task message that was written out; raises `ValueError` for other bytes."""
    return json.loads(base64.b64decode(json.loads(raw)["body"]))[1]
