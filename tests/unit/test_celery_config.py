"""What Celery is told: the values that keep messages safe, and the differences between the brokers."""

import ssl
from datetime import timedelta
from typing import Any

import pytest

from tasks import names
from worker import routing
from worker.celery_config import celery_settings
from worker.settings import Settings

REDIS_URL = "redis://127.0.0.1:6379/0"

#: Each of these answers a way in which Celery loses or repeats work.
SAFE = {
    "task_acks_late": True,
    "task_acks_on_failure": True,
    "task_acks_on_timeout": True,
    "task_reject_on_worker_lost": False,
    "task_retry_on_worker_lost": False,
    "worker_prefetch_multiplier": 32,
    "broker_connection_max_retries": None,
    "broker_connection_retry_on_startup": True,
    "broker_channel_error_retry": True,
    "task_create_missing_queues": False,
    "task_ignore_result": True,
    "result_backend": None,
    "result_expires": None,
    "accept_content": ["json"],
    "worker_consumer": "worker.consumer:QuarantiningConsumer",
    "worker_send_task_events": False,
    "timezone": "UTC",
}


def made(url: str = REDIS_URL, **given: object) -> dict[str, Any]:
    """Return Celery's settings for a broker."""
    return celery_settings(Settings.load(**given), url)


@pytest.mark.parametrize("name", SAFE)
@pytest.mark.parametrize("url", [REDIS_URL, "amqp://h//"])
def test_safe_values(url: str, name: str) -> None:
    """On every broker Celery is told what keeps messages safe."""
    assert made(url)[name] == SAFE[name]


def test_a_watched_worker_holds_one_message_for_each_process() -> None:
    """With events nothing is gathered, and what cannot run together is left to other workers."""
    assert made(REDIS_URL, send_task_events=True)["worker_prefetch_multiplier"] == 1


@pytest.mark.parametrize("unset", ["worker_eta_task_limit", "task_always_eager"])
def test_traps_stay_unset(unset: str) -> None:
    """Settings known as traps are left alone."""
    assert unset not in made()


def test_a_redis_broker_has_limits_on_everything() -> None:
    """No socket of a Redis broker waits for ever, and its keys are apart from everybody else's."""
    options = made(visibility_timeout_s=200, restore_interval_s=7)["broker_transport_options"]

    assert (options["visibility_timeout"], options["unacked_restore_interval"]) == (200, 7)
    assert (options["unacked_restore_throttle"], options["unacked_mutex_expire"]) == (1, 7)
    assert options["global_keyprefix"] == "chio:broker:"
    assert (options["socket_timeout"], options["socket_connect_timeout"]) == (10.0, 5.0)
    assert "retry_on_timeout" not in options


def test_a_tls_broker_is_verified() -> None:
    """A `rediss://` broker must show a certificate: kombu would not ask for one."""
    assert made("rediss://h/0")["broker_use_ssl"] == {"ssl_cert_reqs": ssl.CERT_REQUIRED}
    assert "broker_use_ssl" not in made()


def test_a_tls_broker_is_verified_by_the_given_authorities() -> None:
    """Both kinds of broker are checked against the file of the settings, RabbitMQ's for its host's name as well."""
    on_redis = made("rediss://h/0", tls_ca_file="ca.pem")["broker_use_ssl"]
    on_rabbitmq = made("amqps://h//", tls_ca_file="ca.pem")["broker_use_ssl"]

    assert on_redis == {"ssl_cert_reqs": ssl.CERT_REQUIRED, "ssl_ca_certs": "ca.pem"}
    assert on_rabbitmq == {"cert_reqs": ssl.CERT_REQUIRED, "ca_certs": "ca.pem", "server_hostname": None}


def test_sentinel_is_asked_for_its_master() -> None:
    """A `sentinel://` broker is told which master to ask for."""
    assert made("sentinel://h:26379", sentinel_master="prod")["broker_transport_options"]["master_name"] == "prod"


def test_rabbitmq_queues_are_replicated_and_can_be_delayed() -> None:
    """On RabbitMQ the queues are quorum queues on a topic exchange, and publishes are confirmed."""
    settings = made("amqp://h//")

    assert {queue.queue_arguments["x-queue-type"] for queue in settings["task_queues"]} == {"quorum"}
    assert {queue.exchange.type for queue in settings["task_queues"]} == {"topic"}
    assert settings["broker_transport_options"]["confirm_publish"] is True
    assert "visibility_timeout" not in settings["broker_transport_options"]


def test_redis_queues_need_no_binding() -> None:
    """On Redis the queues have direct exchanges, so a message goes to its list by name."""
    assert {queue.exchange.type for queue in made()["task_queues"]} == {"direct"}


@pytest.mark.parametrize("url", [REDIS_URL, "amqp://h//"])
def test_every_queue_is_declared(url: str) -> None:
    """Workers consume settlements, deliveries and housekeeping."""
    assert [queue.name for queue in made(url)["task_queues"]] == ["settlement", "delivery", "housekeeping"]


@pytest.mark.parametrize(
    "task,queue",
    [
        (names.OBSERVE_SETTLEMENT, names.SETTLEMENT_QUEUE),
        (names.SEND_DELIVERY, names.DELIVERY_QUEUE),
        (names.ESCALATE_RECONCILIATION, names.HOUSEKEEPING_QUEUE),
    ],
)
def test_routes(task: str, queue: str) -> None:
    """Each kind of work has its own queue."""
    assert routing.ROUTES[task] == {"queue": queue}


def test_beat_ticks_expire_and_are_never_slept_over() -> None:
    """A tick that waited a whole period is dropped, and beat never pauses longer than its shortest period."""
    settings = made(escalation_period_s=20)

    (entry,) = settings["beat_schedule"].values()
    assert entry["task"] == names.ESCALATE_RECONCILIATION
    assert (
        timedelta(seconds=entry["schedule"]) == timedelta(seconds=entry["options"]["expires"]) == timedelta(seconds=20)
    )
    assert settings["beat_max_loop_interval"] == 20
