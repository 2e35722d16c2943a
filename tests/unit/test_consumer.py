"""What the consumer lets through, what it sets aside and why, and what it shows of a message."""

import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from kombu.connection import Connection
from kombu.message import Message
from kombu.serialization import prepare_accept_content

from reliability.errors import InvalidInputError
from tasks import raw_message
from tests.support import poison
from worker import broker_transport, envelope, lean_transport, quarantine, redaction
from worker.envelope import Defect

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LIMITS = envelope.Limits(max_message_bytes=100_000, hard_time_limit_s=45, max_delay_s=180)


def message(**changes: Any) -> Message:
    """Return a message as kombu hands it to a consumer, sound unless changed."""
    body = [[], {"job_id": "rcpt-1", "attempt": 0}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}]
    given = {
        "body": json.dumps(body).encode(),
        "headers": poison.sound_headers(),
        "content_type": "application/json",
        "content_encoding": "utf-8",
        **changes,
    }
    return Message(accept=prepare_accept_content(["json"]), channel=SimpleNamespace(), **given)


def headers(**changes: object) -> Message:
    """Return a message with some headers changed."""
    return message(headers=poison.sound_headers(**changes))


def body(content: object) -> Message:
    """Return a message with another body."""
    return message(body=json.dumps(content).encode())


SOUND: dict[str, Message] = {
    "a wake-up": message(),
    "a whole observation": body([[], {"observation": {"receipt_id": "r"}}, None]),
    "due in a minute": headers(eta=(NOW + timedelta(seconds=60)).isoformat()),
    "due long ago": headers(eta="1970-01-01T00:00:00+00:00"),
    "due without an offset": headers(eta="2026-01-01T00:00:10"),
    "expiring": headers(expires="2026-01-01T01:00:00Z"),
    "with limits of its own": headers(timelimit=[40, 20.5]),
    "with a trace header": headers(traceparent="00-abc"),
    "an empty canvas": body([[], {}, {}]),
}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_message_passes(name: str) -> None:
    """What the wire contract allows goes on to Celery."""
    assert envelope.defect_in(SOUND[name], LIMITS, NOW) is None


@pytest.mark.parametrize(
    "found,defect",
    [
        (message(headers=poison.without("id")), Defect.MISSING_ID),
        (headers(id=""), Defect.MALFORMED_HEADERS),
        (headers(id="a\nb"), Defect.MALFORMED_HEADERS),
        (headers(id="x" * 513), Defect.MALFORMED_HEADERS),
        (headers(id=5), Defect.MALFORMED_HEADERS),
        (message(headers=poison.without("task")), Defect.MALFORMED_HEADERS),
        (headers(root_id=["x"]), Defect.MALFORMED_HEADERS),
        (headers(retries=-1), Defect.MALFORMED_HEADERS),
        (headers(retries=True), Defect.MALFORMED_HEADERS),
        (headers(timelimit=[1]), Defect.MALFORMED_HEADERS),
        (headers(timelimit=[None, 45.1]), Defect.MALFORMED_HEADERS),
        (headers(timelimit=[0, None]), Defect.MALFORMED_HEADERS),
        (headers(timelimit=[float("inf"), None]), Defect.MALFORMED_HEADERS),
        (headers(timelimit=[float("nan"), None]), Defect.MALFORMED_HEADERS),
        (headers(as_execution_options=1), Defect.MALFORMED_HEADERS),
        (headers(stamped_headers=["x"]), Defect.MALFORMED_HEADERS),
        (headers(eta={"a": 1}), Defect.MALFORMED_SCHEDULE),
        (headers(eta="9999-99-99"), Defect.MALFORMED_SCHEDULE),
        (headers(expires=60), Defect.MALFORMED_SCHEDULE),
        (headers(eta=(NOW + timedelta(seconds=181)).isoformat()), Defect.SCHEDULE_TOO_FAR),
        (message(content_type="application/x-python-serialize"), Defect.FOREIGN_CONTENT_TYPE),
        (message(content_type=None), Defect.FOREIGN_CONTENT_TYPE),
        (message(body=b"\xff"), Defect.UNDECODABLE),
        (message(body=b"{"), Defect.UNDECODABLE),
        (message(body=b"[" * 90_000), Defect.UNDECODABLE),
        (message(body=b"x" * 100_001), Defect.TOO_LARGE),
        (body([[], {}]), Defect.MALFORMED_BODY),
        (body({"args": [], "kwargs": {}}), Defect.MALFORMED_BODY),
        (body([[1], {}, {}]), Defect.MALFORMED_BODY),
        (body([{}, {}, {}]), Defect.MALFORMED_BODY),
        (body([[], [], {}]), Defect.MALFORMED_BODY),
        (body([[], {}, []]), Defect.MALFORMED_BODY),
        (body([[], {}, {"chord": {"task": "x"}}]), Defect.MALFORMED_BODY),
    ],
)
def test_an_unsound_message_has_a_reason(found: Message, defect: Defect) -> None:
    """Everything Celery would stumble over is found, with a code that says what it is."""
    assert envelope.defect_in(found, LIMITS, NOW) is defect


def test_a_broker_that_delays_by_itself_takes_any_delay() -> None:
    """Where delayed messages stay with the broker, a message may be due in a year."""
    limits = envelope.Limits(max_message_bytes=100_000, hard_time_limit_s=45, max_delay_s=None)

    assert envelope.defect_in(headers(eta="2027-01-01T00:00:00Z"), limits, NOW) is None


@pytest.mark.parametrize(
    "kwargs,shown",
    [
        ({"job_id": "rcpt-1", "attempt": 2}, "{'job_id': 'rcpt-1', 'attempt': 2}"),
        ({"observation": {"receipt_id": "rcpt-1", "tool_name": "secret"}}, "{'receipt_id': 'rcpt-1'}"),
        (
            {"delivery": {"message_id": "m", "partner_id": "p", "body": "secret"}},
            "{'message_id': 'm', 'partner_id': 'p'}",
        ),
        ({"job_id": "a secret of two words"}, "{}"),
        ({"job_id": ["secret"]}, "{}"),
        ({"anything": "secret"}, "{}"),
        (["secret"], "{}"),
        (None, "{}"),
    ],
)
def test_only_ids_are_shown(kwargs: object, shown: str) -> None:
    """Of a message's arguments only ids and numbers are shown, whoever sent it."""
    assert redaction.shown_arguments(kwargs) == shown


def test_events_tell_no_detail() -> None:
    """A task event keeps ids and the exception's class; its text, the traceback and the result are left out."""
    event = {"uuid": "1", "exception": "ValueError('secret')", "traceback": "secret", "result": "secret", "retries": 0}

    assert redaction.shown_fields(event) == {"uuid": "1", "exception": "ValueError", "retries": 0}


@pytest.mark.parametrize(
    "raw", [b"no json", b"[]", b'{"body": 5}', b'{"body": "a", "properties": {"body_encoding": "base64"}}']
)
def test_what_is_no_message_cannot_be_requeued(raw: bytes) -> None:
    """Bytes that never were a message are refused with what to do instead, before anything is published."""
    app: Any = SimpleNamespace()

    with pytest.raises(InvalidInputError, match="export"):
        quarantine.requeue(app, raw, "settlement")


def test_a_message_of_any_broker_is_written_out_alike() -> None:
    """A message taken from RabbitMQ is kept in the form a Redis broker would have held, so one requeue serves both."""
    raw = raw_message.written_out(b"\xff{", {"id": "x"}, {"priority": 1}, {"content-type": "application/json"})

    written = json.loads(raw)
    assert written["headers"] == {"id": "x"}
    assert written["properties"] == {"priority": 1, "body_encoding": "base64"}
    assert written["content-type"] == "application/json"


@pytest.mark.parametrize("name", ["lean", "stock"])
@pytest.mark.parametrize("url", ["redis://h", "rediss://h", "sentinel://h"])
def test_every_redis_url_uses_a_safe_transport(name: Literal["lean", "stock"], url: str) -> None:
    """After registration all Redis schemes lead to a transport that survives broken elements."""
    broker_transport.register(name)

    transport = Connection(url).transport

    assert isinstance(transport, broker_transport.SafeTransport)
    assert isinstance(transport, lean_transport.LeanPolling) is (name == "lean")


def test_compressed_bodies_are_never_opened() -> None:
    """A few compressed bytes could become gigabytes, so a compressed message is an error and nothing else."""
    broker_transport.refuse_compression()

    assert message(headers=poison.sound_headers(compression="gzip"), body=b"bomb").errors
