"""Ports for the programs that this project starts itself."""

import contextlib
import socket
import sys

import pytest

from reliability.errors import ConfigurationError
from worker import ports


def test_found_port_is_free() -> None:
    """A port that is found can be listened on."""
    port = ports.free_port()

    with contextlib.closing(socket.create_server(("127.0.0.1", port))) as listener:
        assert listener.getsockname()[1] == port


def test_taken_ports_are_refused() -> None:
    """Where every candidate is taken the error names them."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port = listener.getsockname()[1]

        with pytest.raises(ConfigurationError, match=str(port)):
            ports.free_port([port])


@pytest.mark.skipif(sys.platform != "linux", reason="other systems keep the range elsewhere")
def test_no_port_is_given_to_outgoing_connections() -> None:
    """A client that asks for a server that is down is never given the server's port."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))

        assert bound.getsockname()[1] > max(ports.PORTS)
