"""
Loopback ports for the servers of tests.

Test processes side by side draw from ports of their own. Any other program may still take one between the look-up and
the server's own bind, so a server's first start tries again with another port; later starts keep it.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from worker import ports

_TRIES: Final = 5


class PortTakenError(Exception):
    """Another program has the port that a server was to listen on."""


def own_ports(name: str, count: int) -> range:
    """Return the ports of one of so many test processes, by the name that pytest-xdist gives it, such as `gw1`."""
    return ports.PORTS[int(name.removeprefix("gw")) % count :: count]


_OWN: Final = own_ports(
    os.environ.get("PYTEST_XDIST_WORKER", "gw0"), int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
)


def free_port() -> int:
    """Return a port of this test process that nobody uses at the moment."""
    return ports.free_port(_OWN)


def start_on_free_port(start: Callable[[int], object]) -> None:
    """Call `start` with a free port, and with another one when it raises `PortTakenError`; the last try may fail."""
    for _ in range(_TRIES - 1):
        with suppress(PortTakenError):
            start(free_port())
            return
    start(free_port())
