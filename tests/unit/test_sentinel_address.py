"""Addresses of servers behind Sentinel: read as kombu reads them, refused with the form that is expected."""

import pytest
from kombu.utils.url import url_to_parts

from reliability.errors import ConfigurationError
from storage import sentinel_address
from storage.sentinel_address import SentinelAddress
from worker import redbeat_config
from worker.settings import Settings

THREE = "sentinel://worker:p%40ss@h1:26380/2;sentinel://h2:26381;sentinel://h3"


def test_every_part_names_a_sentinel_and_the_first_the_login() -> None:
    """All sentinels are kept in order; user, password and database are those of the first part, decoded."""
    assert sentinel_address.address_in(THREE) == SentinelAddress(
        sentinels=(("h1", 26_380), ("h2", 26_381), ("h3", 26_379)), username="worker", password="p@ss", database=2
    )


def test_the_first_part_is_read_as_the_broker_reads_it() -> None:
    """One URL serves ledger and broker: kombu finds the same login and database in it."""
    found, parts = sentinel_address.address_in(THREE), url_to_parts(THREE.partition(";")[0])

    assert (found.username, found.password, str(found.database)) == (parts.username, parts.password, parts.path)


def test_one_sentinel_without_more_is_enough() -> None:
    """Port, login and database may be left out."""
    expected = SentinelAddress(sentinels=(("h", 26_379),), username=None, password=None, database=0)

    assert sentinel_address.address_in("sentinel://h") == expected


@pytest.mark.parametrize(
    "url", ["sentinel://", "sentinel://h;redis://h", "sentinel://h;h:1", "sentinel://h:port", "sentinel://h/one"]
)
def test_another_form_is_refused_without_its_password(url: str) -> None:
    """An address that cannot be read is refused with the form that can, and is not repeated: it may hold a password."""
    with pytest.raises(ConfigurationError, match=r"sentinel://\[user:password@\]host") as refused:
        sentinel_address.address_in(url.replace("//h", "//:secret@h"))

    assert "secret" not in str(refused.value)


def test_several_beats_ask_the_same_sentinels() -> None:
    """The scheduler with a lock finds its server where the ledger is, without the TLS that Sentinel has not."""
    settings = Settings.load(redis_url=THREE, sentinel_master="prod")

    told = redbeat_config.redbeat_settings(settings, THREE)

    assert told["redbeat_redis_url"] == "redis-sentinel"
    assert "redbeat_redis_use_ssl" not in told
    options = told["redbeat_redis_options"]
    assert options["sentinels"] == [("h1", 26_380), ("h2", 26_381), ("h3", 26_379)]
    login = [options[name] for name in ("service_name", "username", "password", "db")]
    assert login == ["prod", "worker", "p@ss", 2]
