"""Which connections the webhook hook makes: kept ones, over TLS with certificates, through a proxy."""

import socket
import ssl
from pathlib import Path

from reliability.delivery import Indeterminate, SuccessConfirmed
from tests.support import partner as support
from tests.support.partner import request
from tests.support.raw_server import RawServer, answer, answering, raw_server

TLS = Path(__file__).parent.parent / "support" / "tls"
ROOT = Path(__file__).parent.parent.parent


def test_connection_is_used_again(tmp_path: Path) -> None:
    """Deliveries to one partner share a connection."""
    with raw_server(answering(answer())) as server:
        hook = support.hook_for(tmp_path, server.url)
        outcomes = [hook.send(request(f"msg_{number}")) for number in range(5)]

    assert all(isinstance(outcome, SuccessConfirmed) for outcome in outcomes)
    assert (server.connections, len(server.requests)) == (1, 5)


def test_connection_is_used_again_after_a_reload(tmp_path: Path) -> None:
    """A reload that changes nothing of the connection keeps it."""
    with raw_server(answering(answer())) as server:
        hook = support.hook_for(tmp_path, server.url)
        hook.send(request("msg_1"))
        hook.directory.reload()
        hook.send(request("msg_2"))

    assert server.connections == 1


def test_own_authority_and_client_certificate(tmp_path: Path) -> None:
    """A partner behind its own authority sees our certificate."""
    seen: list[object] = []

    def over_tls(server: RawServer, connection: socket.socket) -> None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(TLS / "loopback.crt"))
        context.load_cert_chain(TLS / "loopback.crt", TLS / "loopback.key")
        context.verify_mode = ssl.CERT_REQUIRED
        with context.wrap_socket(connection, server_side=True) as secured:
            seen.append(secured.getpeercert())
            server.read_request(secured)
            secured.sendall(answer(headers="Connection: close\r\n"))

    certificate, key = TLS / "loopback.crt", TLS / "loopback.key"
    files = f'ca_file = "{certificate}", client_cert_file = "{certificate}", client_key_file = "{key}"'
    with raw_server(over_tls) as server:
        url = server.url.replace("http:", "https:")
        outcome = support.hook_for(tmp_path, url, f"tls = {{ {files} }}").send(request())

    assert isinstance(outcome, SuccessConfirmed)
    assert len(seen) == 1
    assert seen[0]


def test_unknown_authority_gets_nothing(tmp_path: Path) -> None:
    """Without its authority a partner's certificate proves nothing, and nothing is sent."""

    def over_tls(server: RawServer, connection: socket.socket) -> None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(TLS / "loopback.crt", TLS / "loopback.key")
        with context.wrap_socket(connection, server_side=True) as secured:
            answering(answer())(server, secured)

    with raw_server(over_tls) as server:
        outcome = support.hook_for(tmp_path, server.url.replace("http:", "https:")).send(request())

    assert isinstance(outcome, Indeterminate)
    assert (outcome.rule, outcome.not_sent) == ("phase.tls", True)
    assert server.requests == []


def test_proxy_is_asked_instead_of_the_partner(tmp_path: Path) -> None:
    """Every call to a partner with a proxy goes to the proxy, which sees the partner's whole address."""
    with raw_server(answering(answer())) as proxy:
        terms = f'proxy = "{proxy.url}"\nallow_plain_http = true'
        outcome = support.hook_for(tmp_path, "http://hooks.acme.example/chio", terms).send(request())

    assert isinstance(outcome, SuccessConfirmed)
    assert proxy.requests[0].startswith(b"POST http://hooks.acme.example/chio HTTP/1.1\r\n")


def test_proxy_that_does_not_tunnel_gets_nothing_of_the_message(tmp_path: Path) -> None:
    """A partner with TLS is reached through a tunnel; a proxy that refuses it never sees the body."""
    with raw_server(_refuse_tunnel) as proxy:
        outcome = support.hook_for(tmp_path, "https://hooks.acme.example/", f'proxy = "{proxy.url}"').send(request())

    assert isinstance(outcome, Indeterminate)
    assert outcome.not_sent
    assert proxy.requests[0].startswith(b"CONNECT hooks.acme.example:443 HTTP/1.1\r\n")
    assert b'"n":1' not in b"".join(proxy.requests)


def _refuse_tunnel(server: RawServer, connection: socket.socket) -> None:
    read = b""
    while b"\r\n\r\n" not in read:
        read += connection.recv(65_536)
    server.requests.append(read)
    connection.sendall(answer(status="403 Forbidden"))
