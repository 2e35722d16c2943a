"""
Celery's settings, each with the reason for its value. The ledger is the truth; these keep wake-up calls cheap and safe.

Whoever changes a value changes its comment: each answers a way in which Celery is known to lose or repeat work.
"""

import ssl
from typing import Any, Final
from urllib.parse import urlsplit

from worker import routing, schedule
from worker.settings import Settings
from worker.settings_checks import AMQP_SCHEMES

#: How often an idle connection to a Redis broker is checked, in seconds.
_HEALTH_CHECK_S: Final = 15
#: How often RabbitMQ and the worker tell each other that they live, in seconds.
_AMQP_HEARTBEAT_S: Final = 30
#: Longest wait of a publisher for a free connection, in seconds.
_POOL_WAIT_S: Final = 5
#: How long a new pool process may take to start on a busy machine, in seconds.
_CHILD_START_S: Final = 30


def celery_settings(settings: Settings, broker_url: str) -> dict[str, Any]:
    """Return everything Celery is told."""
    return {
        **_messages(),
        **_broker(settings, broker_url),
        **_worker(settings),
        **_attempts(settings),
        **_beat(settings),
    }


def _messages() -> dict[str, Any]:
    return {
        # JSON alone: anything else could hide an object that runs when it is read.
        "task_serializer": "json",
        "accept_content": ["json"],
        "result_accept_content": ["json"],
        "event_serializer": "json",
        # No results: the ledger knows the outcome, and a result store that is down would skip failure hooks.
        "task_ignore_result": True,
        "result_backend": None,
        # Without an expiry beat would send Celery's own clean-up task once a day, which no worker here knows.
        "result_expires": None,
        # A misspelt queue must fail at its sender instead of filling a list nobody reads.
        "task_create_missing_queues": False,
        "task_routes": routing.ROUTES,
        "task_default_queue": routing.QUEUES[-1],
        # A publish is tried a few times and then fails: the row is due and the pump repeats it. A second copy of a
        # message is harmless: its attempt is claimed once.
        "task_publish_retry": True,
        "task_publish_retry_policy": {
            "max_retries": 3,
            "interval_start": 0.1,
            "interval_step": 0.2,
            "interval_max": 0.5,
        },
        # One clock for every host.
        "enable_utc": True,
        "timezone": "UTC",
    }


def _broker(settings: Settings, broker_url: str) -> dict[str, Any]:
    scheme = urlsplit(broker_url).scheme
    return {
        "broker_url": broker_url,
        # Wait for the broker for ever, at the start and later: None is for ever, 0 is not at all.
        "broker_connection_retry_on_startup": True,
        "broker_connection_retry": True,
        "broker_connection_max_retries": None,
        "broker_connection_timeout": settings.connect_timeout_s,
        # A full or demoted server refuses commands: reconnect instead of ending the worker.
        "broker_channel_error_retry": True,
        # Without a limit a publisher could wait for a free connection for ever.
        "broker_pool_acquire_timeout": _POOL_WAIT_S,
        **(_amqp(settings) if scheme in AMQP_SCHEMES else _redis(settings, scheme)),
        **_tls(settings, scheme),
    }


def _redis(settings: Settings, scheme: str) -> dict[str, Any]:
    options = {
        # Longer than any message may lie with a worker, so that none is handed out twice; short all the same, because
        # long delays are parked in the ledger and never meet it.
        "visibility_timeout": settings.visibility_timeout_s,
        # Look every interval; the default looks at every tenth.
        "unacked_restore_interval": settings.restore_interval_s,
        "unacked_restore_throttle": 1,
        # Who dies while it looks leaves its lock behind, which would keep everybody from looking for five minutes. The
        # lock only saves work: a message that two find is handed out once.
        "unacked_mutex_expire": settings.restore_interval_s,
        # Apart from the keys of every other application on the server.
        "global_keyprefix": settings.broker_key_prefix,
        # Without it a publish to a server that vanished would wait for ever.
        "socket_timeout": settings.broker_timeout_s,
        "socket_connect_timeout": settings.connect_timeout_s,
        "socket_keepalive": True,
        "health_check_interval": _HEALTH_CHECK_S,
        # `retry_on_timeout` stays unset: it would repeat writes that may have happened.
    }
    if scheme == "sentinel":
        options["master_name"] = settings.sentinel_master
    return {
        "task_queues": routing.redis_queues(),
        "broker_transport_options": options,
    }


def _tls(settings: Settings, scheme: str) -> dict[str, Any]:
    """Have the broker's certificate checked: kombu checks none on Redis, and no host's name on RabbitMQ."""
    authorities = str(settings.tls_ca_file) if settings.tls_ca_file else None
    if scheme == "rediss":
        given = {"ssl_ca_certs": authorities} if authorities else {}
        return {"broker_use_ssl": {"ssl_cert_reqs": ssl.CERT_REQUIRED, **given}}
    if scheme == "amqps":
        # No name makes kombu fill in the URL's host.
        verified = {"cert_reqs": ssl.CERT_REQUIRED, "ca_certs": authorities, "server_hostname": None}
        return {"broker_use_ssl": verified}
    return {}


def _amqp(settings: Settings) -> dict[str, Any]:
    return {
        "task_queues": routing.quorum_queues(),
        # Replicated queues, and delays kept by the broker, which needs topic exchanges.
        "task_default_queue_type": "quorum",
        "task_default_exchange_type": "topic",
        "worker_detect_quorum_queues": True,
        "broker_heartbeat": _AMQP_HEARTBEAT_S,
        # A publish counts when RabbitMQ has it.
        "broker_transport_options": {"confirm_publish": True, "write_timeout": settings.broker_timeout_s},
    }


def _worker(settings: Settings) -> dict[str, Any]:
    return {
        # Sets messages aside that would end the worker or stop the queue.
        "worker_consumer": "worker.consumer:QuarantiningConsumer",
        # Prefork alone can end a hook that hangs.
        "worker_pool": settings.pool,
        "worker_concurrency": settings.concurrency,
        # As few messages in doubt as possible: what one pool job runs, which is one while somebody watches
        # (`worker.gathering`).
        "worker_prefetch_multiplier": 1 if settings.send_task_events else settings.gather_size,
        # `worker_eta_task_limit` stays unset: at its limit a worker takes nothing at all.
        # Leaks end with their process.
        "worker_max_tasks_per_child": settings.max_tasks_per_child,
        "worker_max_memory_per_child": settings.max_memory_per_child_kib,
        "worker_proc_alive_timeout": _CHILD_START_S,
        # SIGTERM is answered by `worker.draining`, SIGQUIT by this.
        "worker_soft_shutdown_timeout": settings.soft_shutdown_timeout_s,
        # Let running hooks end when the broker is lost: their outcome goes to the ledger, and a message that is handed
        # out again finds its attempt claimed or done. Ending them would cost each an attempt.
        "worker_cancel_long_running_tasks_on_connection_loss": False,
        # Events halve what a worker and a producer get done, and Flower switches a worker's on when it starts;
        # `worker.redaction` takes out what must not be seen.
        "worker_send_task_events": settings.send_task_events,
        "task_send_sent_event": settings.send_task_events,
        # Standard output belongs to hooks and tools.
        "worker_redirect_stdouts": False,
    }


def _attempts(settings: Settings) -> dict[str, Any]:
    return {
        # The message stays with the broker until the outcome is in the ledger.
        "task_acks_late": True,
        # A hook that fails or hangs ends its message: the ledger decides what follows. Anything else would hand the
        # same message out without counting.
        "task_acks_on_failure": True,
        "task_acks_on_timeout": True,
        "task_reject_on_worker_lost": False,
        # A pool process that dies leaves a lease that expires, which the pump wakes and the ledger counts. Celery's own
        # repeat would find the lease still held.
        "task_retry_on_worker_lost": False,
        "task_soft_time_limit": settings.soft_time_limit_s,
        "task_time_limit": settings.hard_time_limit_s,
    }


def _beat(settings: Settings) -> dict[str, Any]:
    return {
        "beat_schedule": schedule.beat_schedule(settings),
        "beat_schedule_filename": str(settings.data_dir / "celerybeat-schedule"),
        "beat_max_loop_interval": schedule.max_loop_interval_s(settings),
        # Beat answers a ping only while it ticks: the way to see that it lives, and how many there are.
        "beat_enable_remote_control": True,
    }
