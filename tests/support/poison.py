"""
Messages that stop or break a plain Celery worker, as elements of a Redis broker's list, with the reason of each.

Used by the consumer's tests; `good_element` is what the same producer would send when nothing is wrong.
"""

import base64
import json
from collections.abc import Mapping
from typing import Any, Final

from worker.envelope import Defect

TASK: Final = "chio.settle.observe"
_CANVAS: Final = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}


def element(
    *,
    body: object = None,
    headers: Mapping[str, object] | None = None,
    content_type: str = "application/json",
    encoded: str | None = None,
    **properties: object,
) -> dict[str, Any]:
    """Return a message as kombu writes it; `body` is JSON, `encoded` is a body already encoded."""
    kwargs = {"job_id": "rcpt-none", "attempt": 0}
    text = json.dumps([[], kwargs, _CANVAS] if body is None else body)
    return {
        "body": base64.b64encode(text.encode()).decode() if encoded is None else encoded,
        "content-encoding": "utf-8",
        "content-type": content_type,
        "headers": sound_headers() if headers is None else dict(headers),
        "properties": {
            "body_encoding": "base64",
            "delivery_info": {"exchange": "", "routing_key": "settlement"},
            "delivery_tag": "11111111-2222-3333-4444-555555555555",
            "delivery_mode": 2,
            "priority": 0,
            **properties,
        },
    }


def sound_headers(**changes: object) -> dict[str, object]:
    """Return headers of a sound message with some changed."""
    headers = {
        "lang": "py",
        "task": TASK,
        "id": "rcpt-none",
        "root_id": "rcpt-none",
        "parent_id": None,
        "group": None,
        "eta": None,
        "expires": None,
        "retries": 0,
        "timelimit": [None, None],
        "argsrepr": "()",
        "kwargsrepr": "{}",
        "origin": "producer",
    }
    return {**headers, **changes}


def without(name: str) -> dict[str, object]:
    """Return sound headers without one."""
    headers = sound_headers()
    del headers[name]
    return headers


def element_bytes(**changes: Any) -> bytes:
    """Return `element(...)` as it stands in the list."""
    return _bytes(element(**changes))


def _bytes(content: object) -> bytes:
    return json.dumps(content).encode()


def _changed(name: str, value: object) -> bytes:
    return _bytes({**element(), name: value})


#: What is pushed and why it is kept, by name.
POISON: Final[Mapping[str, tuple[bytes, Defect]]] = {
    # The list element is no message.
    "not JSON": (b"not json at all", Defect.BROKEN_ENVELOPE),
    "not UTF-8": (b"\xff\xfe\x00", Defect.BROKEN_ENVELOPE),
    "a number": (b"5", Defect.BROKEN_ENVELOPE),
    "a list": (b"[1, 2]", Defect.BROKEN_ENVELOPE),
    "a string": (b'"hello"', Defect.BROKEN_ENVELOPE),
    "null": (b"null", Defect.BROKEN_ENVELOPE),
    "deep nesting": (b"[" * 100_000, Defect.BROKEN_ENVELOPE),
    "a type that does not decode": (b'{"__type__": "datetime", "__value__": "x"}', Defect.BROKEN_ENVELOPE),
    "no properties": (_changed("properties", None), Defect.BROKEN_ENVELOPE),
    "no headers": (_changed("headers", None), Defect.BROKEN_ENVELOPE),
    "headers a list": (_changed("headers", ["task"]), Defect.BROKEN_ENVELOPE),
    "no delivery tag": (_bytes(element(delivery_tag=None)), Defect.BROKEN_ENVELOPE),
    "no delivery info": (_bytes(element(delivery_info=None)), Defect.BROKEN_ENVELOPE),
    "bad base64": (_bytes(element(encoded="a")), Defect.BROKEN_ENVELOPE),
    "unknown body encoding": (_bytes(element(body_encoding="rot13")), Defect.BROKEN_ENVELOPE),
    # Celery cannot make a task of it.
    "no id": (_bytes(element(headers=without("id"))), Defect.MISSING_ID),
    "id a list": (_bytes(element(headers=sound_headers(id=["x"]))), Defect.MALFORMED_HEADERS),
    "task a list": (_bytes(element(headers=sound_headers(task=["x"]))), Defect.MALFORMED_HEADERS),
    "no task": (_bytes(element(headers=without("task"))), Defect.MALFORMED_HEADERS),
    "empty headers": (_bytes(element(headers={})), Defect.MISSING_ID),
    "time limit a string": (_bytes(element(headers=sound_headers(timelimit="soon"))), Defect.MALFORMED_HEADERS),
    "time limit of a day": (_bytes(element(headers=sound_headers(timelimit=[86_400, None]))), Defect.MALFORMED_HEADERS),
    "retries a string": (_bytes(element(headers=sound_headers(retries="x"))), Defect.MALFORMED_HEADERS),
    "a header that is a method": (_bytes(element(headers=sound_headers(get=1))), Defect.MALFORMED_HEADERS),
    "eta nonsense": (_bytes(element(headers=sound_headers(eta="tomorrow"))), Defect.MALFORMED_SCHEDULE),
    "eta a number": (_bytes(element(headers=sound_headers(eta=7))), Defect.MALFORMED_SCHEDULE),
    "eta in a thousand years": (
        _bytes(element(headers=sound_headers(eta="3026-01-01T00:00:00+00:00"))),
        Defect.SCHEDULE_TOO_FAR,
    ),
    "expires nonsense": (_bytes(element(headers=sound_headers(expires="never"))), Defect.MALFORMED_SCHEDULE),
    "body an empty list": (_bytes(element(body=[])), Defect.MALFORMED_BODY),
    "body of two": (_bytes(element(body=[[], {}])), Defect.MALFORMED_BODY),
    "body a string": (_bytes(element(body="hello")), Defect.MALFORMED_BODY),
    "body an object": (_bytes(element(body={"args": [], "kwargs": {}})), Defect.MALFORMED_BODY),
    "no body": (_changed("body", None), Defect.MALFORMED_BODY),
    "kwargs a list": (_bytes(element(body=[[], [], _CANVAS])), Defect.MALFORMED_BODY),
    "positional arguments": (_bytes(element(body=[["rcpt-1"], {}, _CANVAS])), Defect.MALFORMED_BODY),
    "a callback": (_bytes(element(body=[[], {}, {**_CANVAS, "callbacks": [{"task": "x"}]}])), Defect.MALFORMED_BODY),
    "broken JSON body": (_bytes(element(encoded=base64.b64encode(b"{broken").decode())), Defect.UNDECODABLE),
    "compressed": (_bytes(element(headers=sound_headers(compression="gzip"))), Defect.UNDECODABLE),
    "unknown compression": (_bytes(element(headers=sound_headers(compression="rar"))), Defect.UNDECODABLE),
    "pickle": (_bytes(element(content_type="application/x-python-serialize")), Defect.FOREIGN_CONTENT_TYPE),
    "unknown task": (_bytes(element(headers=sound_headers(task="tasks.of.somebody"))), Defect.UNKNOWN_TASK),
    "a task of Celery itself": (_bytes(element(headers=sound_headers(task="celery.map"))), Defect.UNKNOWN_TASK),
    "too large": (_bytes(element(body=[[], {"job_id": "x" * 2_000_000}, _CANVAS])), Defect.TOO_LARGE),
}


def good_element(job_id: str) -> bytes:
    """Return a message that wakes an admitted job."""
    body = [[], {"job_id": job_id, "attempt": 0}, _CANVAS]
    return _bytes(element(body=body, headers=sound_headers(id=job_id), delivery_tag=f"tag-{job_id}"))
