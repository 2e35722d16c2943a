"""
What celery-redbeat is told, where more than one beat is to run: a lock on the ledger's server lets one of them tick.

The lock outlives five pauses of its holder, and the others look for it once a pause: when the holder dies, the next
tick comes from another one after six pauses at most. A beat that loses its lock ends; its supervisor starts it anew.
"""

import ssl
from typing import Any, Final

from storage import sentinel_address
from worker import schedule
from worker.settings import Settings

#: The scheduler's class, for Celery.
SCHEDULER: Final = "redbeat.RedBeatScheduler"
#: Longest pause between two looks at the schedule, in seconds: the length of the lock follows from it.
_LONGEST_PAUSE_S: Final = 5
#: How many pauses the lock outlives. With fewer, one slow tick loses it.
_PAUSES_PER_LOCK: Final = 5


def redbeat_settings(settings: Settings, redis_url: str) -> dict[str, Any]:
    """Return what is told beside the settings of every beat; the schedule's keys are in the ledger's namespace."""
    pause_s = min(_LONGEST_PAUSE_S, schedule.max_loop_interval_s(settings))
    return {
        "beat_scheduler": SCHEDULER,
        "beat_max_loop_interval": pause_s,
        # The part puts another colon between this and the names of its own keys.
        "redbeat_key_prefix": f"{settings.namespace}redbeat:",
        "redbeat_lock_timeout": pause_s * _PAUSES_PER_LOCK,
        **_server(settings, redis_url),
    }


def _server(settings: Settings, redis_url: str) -> dict[str, Any]:
    times = {"socket_timeout": settings.redis_timeout_s, "socket_connect_timeout": settings.connect_timeout_s}
    if sentinel_address.is_sentinel(redis_url):
        # Without the setting for TLS: the part would speak it to the server because it is there.
        address = sentinel_address.address_in(redis_url)
        login = {"username": address.username, "password": address.password, "db": address.database}
        named = {"sentinels": list(address.sentinels), "service_name": settings.sentinel_master}
        return {"redbeat_redis_url": "redis-sentinel", "redbeat_redis_options": {**named, **login, **times}}
    authorities = {"ssl_ca_certs": str(settings.tls_ca_file)} if settings.tls_ca_file else {}
    return {
        "redbeat_redis_url": redis_url,
        "redbeat_redis_options": times,
        "redbeat_redis_use_ssl": {"ssl_cert_reqs": ssl.CERT_REQUIRED, **authorities},
    }
