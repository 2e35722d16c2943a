"""
Loopback ports for programs that this project starts itself: the embedded server, and what the demo and tests run.

None is a port that the system gives to outgoing connections. Such a port may go to any client while its server is down,
even to one that asks for that very server, and then the server cannot come back.
"""

import secrets
import socket
from collections.abc import Sequence
from typing import Final

from reliability.errors import ConfigurationError

#: Below what Linux (from 32,768), macOS and Windows (from 49,152) give to outgoing connections.
PORTS: Final = range(20_000, 32_768)
_LOOPBACK: Final = "127.0.0.1"
#: Enough that a port is found on a machine where half of them are taken.
_TRIES: Final = 64


def free_port(candidates: Sequence[int] = PORTS) -> int:
    """
    Return one of these ports, at random, that nobody uses at the moment.

    Raises:
        ConfigurationError: if none is found.

    """
    for _ in range(_TRIES):
        port = secrets.choice(candidates)
        if _is_free(port):
            return port
    raise ConfigurationError(
        f"expected a free port among {candidates[0]} to {candidates[-1]} on {_LOOPBACK}, found none in {_TRIES} tries;"
        " end a program that listens there or name a port"
    )


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: what closed connections left behind is in nobody's way.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_LOOPBACK, port))
        except OSError:
            return False
    return True
