"""The address guard: every form of an inside address is closed, public ones are open."""

import pytest

from reliability.errors import ConfigurationError
from tasks.hooks.address_guard import AddressBlockedError, AddressGuard

CLOSED = [
    "127.0.0.1",
    "127.255.255.254",
    "0.0.0.0",  # noqa: S104  # an address to block, not to bind
    "0.1.2.3",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "100.64.0.1",
    "100.100.100.200",
    "169.254.169.254",
    "168.63.129.16",
    "192.0.0.192",
    "192.0.2.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "192.88.99.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:0:127.0.0.1",
    "64:ff9b::127.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::8.8.8.8",
    "2002:7f00:1::",
    "2002:808:808::1",
    "2001::1",
    "2001:0:53aa:64c:0:0:f5ff:fffe",
    "2001:db8::1",
    "3fff::1",
    "100::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "5f00::1",
    "",
    "localhost",
    "2130706433",
    "127.1",
    "0x7f.0.0.1",
]

OPEN = [
    "8.8.8.8",
    "1.1.1.1",
    "172.32.0.1",
    "100.128.0.1",
    "223.255.255.255",
    "2606:4700::1111",
    "2a00:1450:4001::1",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
]


@pytest.mark.parametrize("address", CLOSED)
def test_an_inside_address_is_closed(address: str) -> None:
    """Loopback, private, link-local, metadata, mapped, translated and malformed addresses are blocked."""
    guard = AddressGuard.public_only()

    with pytest.raises(AddressBlockedError):
        guard.check(address)


@pytest.mark.parametrize("address", OPEN)
def test_a_public_address_is_open(address: str) -> None:
    """A public unicast address passes, also when mapped or translated."""
    AddressGuard.public_only().check(address)


@pytest.mark.parametrize("address", ["127.0.0.1", "::ffff:127.0.0.1", "64:ff9b::127.0.0.1", "fd12::5"])
def test_an_allowed_network_is_open_in_each_of_its_forms(address: str) -> None:
    """An allow list opens its networks, also for the forms of IPv6 that stand for an IPv4 address."""
    AddressGuard.public_only(["127.0.0.0/8", "fd12::/16"]).check(address)


def test_an_allow_list_opens_nothing_else() -> None:
    """A neighbour of an allowed network stays closed."""
    guard = AddressGuard.public_only(["10.1.0.0/16"])

    assert guard.allows("10.1.2.3")
    assert not guard.allows("10.2.0.1")


def test_an_open_guard_lets_everything_pass() -> None:
    """The guard of an operator's own URL blocks nothing."""
    AddressGuard.open_to_all().check("127.0.0.1")


@pytest.mark.parametrize("text", ["10.1.0.1/16", "ten", "10.0.0.0/33"])
def test_an_allow_list_entry_that_is_no_network_is_refused(text: str) -> None:
    """A malformed allow list stops with the entry and the form that was expected."""
    with pytest.raises(ConfigurationError, match="expected allowed networks such as"):
        AddressGuard.public_only([text])
