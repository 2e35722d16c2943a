"""
Which addresses a request may connect to: keeps a partner's URL from reaching the inside of our own network.

The guard judges the address that is resolved and connected, never the name, so neither a name that changes its answer
nor an unusual spelling gets past it. `http_connector` asks it twice: for every answer of the resolver, and once more
for the address a socket is made for.
"""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from reliability.errors import ConfigurationError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

#: IPv4 that is no public unicast address (IANA special-purpose registry), and one public address that is not public.
_CLOSED_V4 = tuple(
    ipaddress.IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # this host
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared by carriers; a cloud's metadata lives here
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # a cloud's metadata and DNS, reachable from inside only
        "169.254.0.0/16",  # link-local; most clouds' metadata
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments; a cloud's metadata
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved and broadcast
    )
)
#: The only IPv6 range that is public unicast. Outside: unspecified, loopback, mapped, local, link-local, multicast.
_PUBLIC_V6 = ipaddress.IPv6Network("2000::/3")
#: What is closed inside the public range.
_CLOSED_V6 = tuple(
    ipaddress.IPv6Network(text)
    for text in (
        "2001::/23",  # protocol assignments, with Teredo, which hides an IPv4 address
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4, which carries an IPv4 address and is not used by anybody any more
        "3fff::/20",  # documentation
    )
)
#: Addresses here stand for the IPv4 address in their last 32 bits: mapped, and translated by NAT64.
_CARRIES_V4 = (ipaddress.IPv6Network("::ffff:0:0/96"), ipaddress.IPv6Network("64:ff9b::/96"))
_V4_BITS = 0xFFFF_FFFF


class AddressBlockedError(OSError):
    """The address is not one that requests may connect to."""

    def __init__(self) -> None:
        # Always the same text: a racing connect keeps the class only if all its errors read alike.
        super().__init__("the address is not one that requests may connect to")


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressGuard:
    """Allow public addresses only, or every address; `allowed_networks` are open in either case."""

    block_private: bool
    allowed_networks: tuple[Network, ...] = ()

    @classmethod
    def open_to_all(cls) -> Self:
        """Make a guard that lets everything pass, for a URL that the operator configured."""
        return cls(block_private=False)

    @classmethod
    def public_only(cls, allowed_networks: Iterable[str] = ()) -> Self:
        """
        Make a guard for URLs that come from partners; `allowed_networks` in CIDR form are open all the same.

        Raises:
            ConfigurationError: An entry is no network.

        """
        return cls(block_private=True, allowed_networks=tuple(_network(text) for text in allowed_networks))

    def check(self, address: str) -> None:
        """
        Let an IP address pass or not; what is no IP address does not.

        Raises:
            AddressBlockedError: The address is closed.

        """
        if not self.allows(address):
            raise AddressBlockedError

    def allows(self, address: str) -> bool:
        """Tell whether a socket may connect to this IP address."""
        if not self.block_private:
            return True
        try:
            # An IPv6 address may come with the interface it is valid on: fe80::1%eth0.
            target = _carried(ipaddress.ip_address(address.partition("%")[0]))
        except ValueError:
            return False
        return _is_in(target, self.allowed_networks) or _is_public(target)


def _carried(address: Address) -> Address:
    if isinstance(address, ipaddress.IPv6Address) and _is_in(address, _CARRIES_V4):
        return ipaddress.IPv4Address(int(address) & _V4_BITS)
    return address


def _is_public(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv4Address):
        return not _is_in(address, _CLOSED_V4)
    return address in _PUBLIC_V6 and not _is_in(address, _CLOSED_V6)


def _is_in(address: Address, networks: Iterable[Network]) -> bool:
    return any(address in network for network in networks)


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        problem = f"expected allowed networks such as 10.1.0.0/16 with no host bits set, got: {text!r}"
        raise ConfigurationError(problem) from error
