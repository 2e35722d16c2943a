"""The HTTP client over real sockets: how far an exchange got, and that nothing a peer does goes past its bounds."""

import asyncio
import concurrent.futures
import gzip
import hashlib
import logging
import os
import signal
import socket
import ssl
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest

from reliability.errors import ConfigurationError, InvalidInputError
from tasks.hooks import http_loop
from tasks.hooks.address_guard import AddressGuard
from tasks.hooks.http_client import HttpClient, HttpClientOptions
from tasks.hooks.http_connector import TlsFiles
from tasks.hooks.http_exchange import ErrorKind, HttpExchange, HttpRequest, Phase
from tests.support.raw_server import RawServer, answer, answering, raw_server, read_request, reset

#: Long enough that no test meets it by accident.
AMPLE_S = 15.0
#: For tests in which the deadline is what ends the exchange.
SHORT_S = 0.6
#: More than the buffers of loopback hold.
BIG_BODY = b"x" * 16_000_000
TLS_DIR = Path(__file__).parents[1] / "support" / "tls"
SECRET = b"s3cret-in-the-body"


def request(url: str, body: bytes = b'{"a":1}', deadline_s: float = AMPLE_S) -> HttpRequest:
    """Make a request with an ample deadline."""
    return HttpRequest(url=url, body=body, headers={"Content-Type": "application/json"}, total_deadline_s=deadline_s)


def post(url: str, body: bytes = b'{"a":1}', deadline_s: float = AMPLE_S) -> HttpExchange:
    """Post with a client of its own."""
    return HttpClient().post(request(url, body, deadline_s))


def met(exchange: HttpExchange) -> tuple[Phase, ErrorKind | None, int | None]:
    """Return the three facts that tell the situations apart."""
    return exchange.phase, exchange.error, exchange.status


@pytest.fixture(autouse=True)
def _fresh_loop() -> Iterator[None]:
    yield
    http_loop.shut_down()


# --- what went well


def test_a_whole_exchange_ends_with_the_body() -> None:
    """A complete answer gives its status, its kept headers, its body and the body's digest."""
    response = answer(headers="Retry-After: 7\r\nX-Other: 1\r\n", body=b"done")
    with raw_server(answering(response)) as server:
        exchange = post(server.url)

    assert met(exchange) == (Phase.BODY, None, 200)
    assert exchange.body == b"done"
    assert exchange.body_sha256 == hashlib.sha256(b"done").hexdigest()
    assert exchange.headers == {"retry-after": "7"}
    assert not exchange.body_truncated
    assert not exchange.not_sent


def test_the_request_carries_what_it_was_given() -> None:
    """Body and headers arrive as given, with no compression asked for."""
    with raw_server(answering(answer())) as server:
        post(server.url, body=b"payload")

    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert body == b"payload"
    assert b"Content-Type: application/json" in head
    assert b"Accept-Encoding: identity" in head


def test_connections_are_reused() -> None:
    """A second request of the same client goes over the first one's connection."""
    client = HttpClient()
    with raw_server(answering(answer(body=b"ok"))) as server:
        first = client.post(request(server.url))
        second = client.post(request(server.url))

    assert (first.status, second.status, server.connections) == (200, 200, 1)


def test_a_body_of_exactly_the_cap_is_whole() -> None:
    """A body that fills the cap to the last byte is not called truncated."""
    client = HttpClient(HttpClientOptions(max_response_bytes=1_000))
    with raw_server(answering(answer(body=b"y" * 1_000))) as server:
        exchange = client.post(request(server.url))

    assert len(exchange.body) == 1_000
    assert not exchange.body_truncated


# --- the request was not sent


def test_a_refused_connection_was_not_sent() -> None:
    """Nobody listens: the exchange ends in connecting, refused, and nothing was sent."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        exchange = post(f"http://127.0.0.1:{unused.getsockname()[1]}/")

    assert met(exchange) == (Phase.CONNECT, ErrorKind.REFUSED, None)
    assert exchange.not_sent


def test_a_connection_that_is_never_made_ends_at_the_deadline() -> None:
    """A host that drops what is sent to it ends the exchange in connecting, timed out."""
    with socket.socket() as full, socket.socket() as filler:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        filler.connect(full.getsockname())
        exchange = post(f"http://127.0.0.1:{full.getsockname()[1]}/", deadline_s=SHORT_S)

    assert met(exchange) == (Phase.CONNECT, ErrorKind.TIMEOUT, None)
    assert exchange.not_sent


def test_a_name_that_does_not_resolve_was_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown name ends the exchange in looking for an address."""

    def unknown(*_: object, **__: object) -> object:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)

    exchange = post("http://partner.test/")

    assert met(exchange) == (Phase.DNS, ErrorKind.NAME_NOT_RESOLVED, None)
    assert exchange.not_sent


def test_a_slow_name_server_counts_towards_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look-up that hangs ends at the deadline, in looking for an address."""
    over = threading.Event()

    def hang(*_: object, **__: object) -> object:
        over.wait(AMPLE_S)
        raise socket.gaierror(socket.EAI_AGAIN, "gave up")

    monkeypatch.setattr(socket, "getaddrinfo", hang)

    exchange = post("http://partner.test/", deadline_s=SHORT_S)
    over.set()

    assert met(exchange) == (Phase.DNS, ErrorKind.TIMEOUT, None)


def test_a_reset_before_the_body_was_complete_was_not_sent() -> None:
    """A peer that hangs up in the middle of a large body leaves the exchange in sending."""

    def hang_up(_: RawServer, connection: socket.socket) -> None:
        connection.recv(1_024)
        reset(connection)

    with raw_server(hang_up, receive_buffer_bytes=4_096) as server:
        exchange = post(server.url, body=BIG_BODY)

    assert met(exchange) == (Phase.SENDING, ErrorKind.RESET, None)
    assert exchange.not_sent


def test_a_peer_that_stops_reading_ends_at_the_deadline() -> None:
    """A body that nobody reads ends at the deadline, in sending."""

    def stop_reading(server: RawServer, _: socket.socket) -> None:
        server.stall()

    with raw_server(stop_reading, receive_buffer_bytes=4_096) as server:
        exchange = post(server.url, body=BIG_BODY, deadline_s=SHORT_S)

    assert met(exchange) == (Phase.SENDING, ErrorKind.TIMEOUT, None)


# --- sent, and no status


def _reset_after_body(server: RawServer, connection: socket.socket) -> None:
    server.read_request(connection)
    reset(connection)


def _close_after_body(server: RawServer, connection: socket.socket) -> None:
    server.read_request(connection)


def _silence(server: RawServer, connection: socket.socket) -> None:
    server.read_request(connection)
    server.stall()


def _garbage(server: RawServer, connection: socket.socket) -> None:
    server.read_request(connection)
    connection.sendall(b"EHLO partner\r\n\r\n")


def _endless_headers(server: RawServer, connection: socket.socket) -> None:
    server.read_request(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\n" + b"x-a: 1\r\n" * 100_000)
    server.stall()


def _drip_headers(server: RawServer, connection: socket.socket) -> None:
    server.read_request(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while not server.over.wait(0.02):
        connection.sendall(b"x-a: 1\r\n")


def _continue_for_ever(server: RawServer, connection: socket.socket) -> None:
    server.read_request(connection)
    while not server.over.wait(0.02):
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")


@pytest.mark.parametrize(
    "peer, error",
    [
        (_reset_after_body, ErrorKind.RESET),
        (_close_after_body, ErrorKind.RESET),
        (_silence, ErrorKind.TIMEOUT),
        (_drip_headers, ErrorKind.TIMEOUT),
        (_continue_for_ever, ErrorKind.TIMEOUT),
        (_garbage, ErrorKind.PROTOCOL),
        (_endless_headers, ErrorKind.PROTOCOL),
    ],
)
def test_what_ends_after_the_body_was_sent_may_have_been_received(
    peer: Callable[[RawServer, socket.socket], None], error: ErrorKind
) -> None:
    """Without a status after the body was sent, nobody knows whether the peer acted."""
    deadline_s = SHORT_S if error is ErrorKind.TIMEOUT else AMPLE_S
    with raw_server(peer) as server:
        exchange = post(server.url, deadline_s=deadline_s)

    assert met(exchange) == (Phase.SENT, error, None)
    assert not exchange.not_sent


# --- a status came


def test_a_dripping_body_ends_at_the_deadline_with_its_status() -> None:
    """A body that comes byte by byte ends at the one deadline; the status and what came so far are kept."""

    def drip(server: RawServer, connection: socket.socket) -> None:
        server.read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        while not server.over.wait(0.02):
            connection.sendall(b"z")

    with raw_server(drip) as server:
        exchange = post(server.url, deadline_s=SHORT_S)

    assert met(exchange) == (Phase.STATUS, ErrorKind.TIMEOUT, 200)
    assert set(exchange.body) <= set(b"z")


def test_a_body_that_breaks_off_keeps_its_status() -> None:
    """A connection lost in the middle of the response body leaves the status and says reset."""

    def break_off(server: RawServer, connection: socket.socket) -> None:
        server.read_request(connection)
        connection.sendall(b"HTTP/1.1 503 Busy\r\nContent-Length: 100\r\n\r\nhalf")

    with raw_server(break_off) as server:
        exchange = post(server.url)

    assert met(exchange) == (Phase.STATUS, ErrorKind.RESET, 503)
    assert exchange.body == b"half"


def test_an_answer_before_the_body_was_sent_counts() -> None:
    """A peer that answers without reading the body is taken at its word."""

    def refuse_early(server: RawServer, connection: socket.socket) -> None:
        connection.recv(1_024)
        connection.sendall(answer(status="413 Too Large"))
        server.stall()

    with raw_server(refuse_early, receive_buffer_bytes=4_096) as server:
        exchange = post(server.url, body=BIG_BODY)

    assert met(exchange) == (Phase.BODY, None, 413)


def test_an_endless_body_is_cut_at_the_cap_and_its_connection_closed() -> None:
    """A body without end is kept up to the cap, marked truncated, and the connection is not used again."""
    closed = threading.Event()

    def endless(server: RawServer, connection: socket.socket) -> None:
        server.read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            while True:
                connection.sendall(b"1000\r\n" + b"w" * 4_096 + b"\r\n")
        except OSError:
            closed.set()

    client = HttpClient(HttpClientOptions(max_response_bytes=10_000))
    with raw_server(endless) as server:
        exchange = client.post(request(server.url))
        was_closed = closed.wait(AMPLE_S)

    assert met(exchange) == (Phase.BODY, None, 200)
    assert exchange.body == b"w" * 10_000
    assert exchange.body_sha256 == hashlib.sha256(b"w" * 10_000).hexdigest()
    assert exchange.body_truncated
    assert was_closed


def test_a_compressed_body_is_not_decompressed() -> None:
    """A gzip bomb stays what it is on the wire: a few bytes."""
    bomb = gzip.compress(b"\0" * 5_000_000)
    with raw_server(answering(answer(headers="Content-Encoding: gzip\r\n", body=bomb))) as server:
        exchange = post(server.url)

    assert exchange.body == bomb


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"])
def test_a_redirect_is_an_answer_and_not_followed(status: str) -> None:
    """A redirect gives its status; its target is never asked."""
    with raw_server(answering(answer())) as target:
        response = answer(status=status, headers=f"Location: {target.url}\r\n")
        with raw_server(answering(response)) as server:
            exchange = post(server.url)

    assert exchange.status == int(status[:3])
    assert target.connections == 0


def test_cookies_are_not_kept() -> None:
    """A cookie that a peer sets does not come back to it."""
    client = HttpClient()
    with raw_server(answering(answer(headers="Set-Cookie: a=b\r\n"))) as server:
        client.post(request(server.url))
        client.post(request(server.url))

    assert len(server.requests) == 2
    assert not any(b"cookie" in seen.lower() for seen in server.requests)


def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """HTTP_PROXY does not divert a request."""
    with raw_server(answering(answer())) as proxy, raw_server(answering(answer(status="204 None"))) as server:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("http_proxy", proxy.url)
        exchange = post(server.url)

    assert exchange.status == 204
    assert proxy.connections == 0


def test_kept_headers_are_bounded() -> None:
    """A long header value is cut."""
    with raw_server(answering(answer(headers=f"Retry-After: {'9' * 5_000}\r\n"))) as server:
        exchange = post(server.url)

    assert exchange.headers["retry-after"] == "9" * 256


def test_a_header_that_is_no_text_is_left_out() -> None:
    """A value with bytes beyond ASCII is not kept, so it can trip nobody later."""
    with raw_server(answering(b"HTTP/1.1 200 OK\r\nRetry-After: \xff\r\nContent-Length: 0\r\n\r\n")) as server:
        exchange = post(server.url)

    assert met(exchange) == (Phase.BODY, None, 200)
    assert exchange.headers == {}


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 1000 X\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\na",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\nabc\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX-A: a\0b\r\n\r\n",
        b"HTTP/1.1 200 " + b"r" * 100_000 + b"\r\n\r\n",
    ],
)
def test_what_is_no_http_is_told_apart(response: bytes) -> None:
    """A malformed answer is a protocol error, never an exception and never a status."""
    with raw_server(answering(response)) as server:
        exchange = post(server.url)

    assert met(exchange) == (Phase.SENT, ErrorKind.PROTOCOL, None)


# --- addresses that are closed


def _guarded(*allowed: str) -> HttpClient:
    return HttpClient(HttpClientOptions(guard=AddressGuard.public_only(allowed)))


def _resolving_to(*addresses: str) -> Callable[..., object]:
    def resolve(host: str, port: int, *_: object, **__: object) -> object:
        del host
        return [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", (address, port, 0, 0))
            if ":" in address
            else (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
            for address in addresses
        ]

    return resolve


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "10.0.0.1"])
def test_a_closed_address_in_the_url_is_refused_before_connecting(host: str) -> None:
    """An address of the inside, in each of its forms, ends the exchange as policy and meets no server."""
    with raw_server(answering(answer())) as server:
        exchange = _guarded().post(request(f"http://{host}:{server.port}/"))

    assert met(exchange) == (Phase.POLICY, ErrorKind.BLOCKED, None)
    assert exchange.not_sent
    assert server.connections == 0


@pytest.mark.parametrize("host", ["2130706433", "127.1", "0x7f000001", "0177.0.0.1"])
def test_an_address_in_disguise_meets_no_server(host: str) -> None:
    """A number that some programs read as 127.0.0.1 reaches nothing."""
    with raw_server(answering(answer())) as server:
        exchange = _guarded().post(request(f"http://{host}:{server.port}/"))

    assert exchange.not_sent
    assert server.connections == 0


@pytest.mark.parametrize(
    "addresses", [("127.0.0.1",), ("93.184.215.14", "127.0.0.1"), ("127.0.0.1", "93.184.215.14"), ("::ffff:127.0.0.1",)]
)
def test_a_name_with_any_closed_address_is_refused(monkeypatch: pytest.MonkeyPatch, addresses: tuple[str, ...]) -> None:
    """A name that answers with a closed address is refused, whatever else it answers with."""
    monkeypatch.setattr(socket, "getaddrinfo", _resolving_to(*addresses))
    with raw_server(answering(answer())) as server:
        exchange = _guarded().post(request(f"http://partner.test:{server.port}/"))

    assert met(exchange) == (Phase.POLICY, ErrorKind.BLOCKED, None)
    assert server.connections == 0


def test_an_allowed_network_is_reached_through_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The allow list lets a name through that resolves into it."""
    monkeypatch.setattr(socket, "getaddrinfo", _resolving_to("127.0.0.1"))
    with raw_server(answering(answer())) as server:
        exchange = _guarded("127.0.0.0/8").post(request(f"http://partner.test:{server.port}/"))

    assert met(exchange) == (Phase.BODY, None, 200)


# --- TLS


def _tls_server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS_DIR / "loopback.crt", TLS_DIR / "loopback.key")
    return context


def _over_tls(server: RawServer, connection: socket.socket) -> None:
    with _tls_server_context().wrap_socket(connection, server_side=True) as secure:
        server.requests.append(read_request(secure))
        secure.sendall(answer(body=b"safe"))


def _trusting() -> HttpClient:
    return HttpClient(HttpClientOptions(tls=TlsFiles(ca_file=TLS_DIR / "loopback.crt")))


def test_a_verified_peer_is_spoken_to() -> None:
    """A certificate of a trusted authority, for the right host, lets the request through."""
    with raw_server(_over_tls) as server:
        exchange = _trusting().post(request(f"https://127.0.0.1:{server.port}/"))

    assert met(exchange) == (Phase.BODY, None, 200)
    assert exchange.body == b"safe"


def test_an_unknown_authority_is_refused() -> None:
    """A certificate nobody vouches for ends the exchange in the handshake; nothing is sent."""
    with raw_server(_over_tls) as server:
        exchange = HttpClient().post(request(f"https://127.0.0.1:{server.port}/"))

    assert met(exchange) == (Phase.TLS, ErrorKind.CERTIFICATE, None)
    assert exchange.not_sent
    assert server.requests == []


def test_a_certificate_for_another_host_is_refused() -> None:
    """A trusted certificate for another name ends the exchange in the handshake."""
    with raw_server(_over_tls) as server:
        exchange = _trusting().post(request(f"https://localhost:{server.port}/"))

    assert met(exchange) == (Phase.TLS, ErrorKind.CERTIFICATE, None)
    assert server.requests == []


def test_a_peer_without_tls_fails_in_the_handshake() -> None:
    """A plain server under an https URL ends the exchange in the handshake."""

    def speak_plainly(_: RawServer, connection: socket.socket) -> None:
        connection.recv(1_024)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with raw_server(speak_plainly) as server:
        exchange = _trusting().post(request(f"https://127.0.0.1:{server.port}/"))

    assert met(exchange) == (Phase.TLS, ErrorKind.TLS, None)
    assert exchange.not_sent


def test_a_handshake_that_hangs_ends_at_the_deadline() -> None:
    """A peer that never answers the handshake ends the exchange there, timed out."""

    def say_nothing(server: RawServer, _: socket.socket) -> None:
        server.stall()

    with raw_server(say_nothing) as server:
        exchange = _trusting().post(request(f"https://127.0.0.1:{server.port}/", deadline_s=SHORT_S))

    assert met(exchange) == (Phase.TLS, ErrorKind.TIMEOUT, None)


def test_a_tls_file_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    """A missing authority file is named when the client is made."""
    with pytest.raises(ConfigurationError, match=r"missing\.pem"):
        HttpClient(HttpClientOptions(tls=TlsFiles(ca_file=tmp_path / "missing.pem")))


# --- threads, loops, processes


def test_many_threads_share_a_client() -> None:
    """Requests from many threads at once all get their own answer."""
    client = HttpClient()

    def echo(server: RawServer, connection: socket.socket) -> None:
        while read := server.read_request(connection):
            connection.sendall(answer(body=read.partition(b"\r\n\r\n")[2]))

    bodies = [f"body-{number}".encode() for number in range(64)]
    with raw_server(echo) as server, concurrent.futures.ThreadPoolExecutor(16) as pool:
        exchanges = list(pool.map(lambda body: client.post(request(server.url, body)), bodies))

    assert [exchange.body for exchange in exchanges] == bodies


def test_a_batch_runs_at_once_from_any_loop() -> None:
    """Awaited together, requests are on the way at the same time: the peer answers none before it has all."""
    client = HttpClient()
    everybody = threading.Barrier(20)

    def wait_for_all(server: RawServer, connection: socket.socket) -> None:
        server.read_request(connection)
        everybody.wait(AMPLE_S)
        connection.sendall(answer())

    async def batch(url: str) -> list[HttpExchange]:
        return await asyncio.gather(*(client.post_async(request(url)) for _ in range(20)))

    with raw_server(wait_for_all) as server:
        exchanges = asyncio.run(batch(server.url))

    assert [exchange.status for exchange in exchanges] == [200] * 20


class TimeIsUpError(Exception):
    """What a time limit raises in the thread that waits."""


def test_a_time_limit_ends_the_request_too() -> None:
    """When a signal interrupts the wait with an exception, the request is given up and its connection closed."""
    hung_up = threading.Event()

    def interrupt_then_watch(server: RawServer, connection: socket.socket) -> None:
        server.read_request(connection)
        os.kill(os.getpid(), signal.SIGUSR1)
        if connection.recv(1) == b"":
            hung_up.set()

    def raise_it(_: int, __: FrameType | None) -> None:
        raise TimeIsUpError

    before = signal.signal(signal.SIGUSR1, raise_it)
    try:
        with raw_server(interrupt_then_watch) as server:
            with pytest.raises(TimeIsUpError):
                post(server.url)
            was_given_up = hung_up.wait(AMPLE_S)
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert was_given_up


def test_a_forked_child_has_its_own_connections(tmp_path: Path) -> None:
    """A child that was forked after its parent's first request posts on its own, and the parent still can."""
    script = tmp_path / "fork.py"
    script.write_text(
        textwrap.dedent("""
            import os, sys
            from tasks.hooks.http_client import HttpClient
            from tasks.hooks.http_exchange import HttpRequest

            client = HttpClient()

            def post():
                request = HttpRequest(url=sys.argv[1], body=b"x", headers={}, total_deadline_s=10)
                return client.post(request).status

            before = post()
            child = os.fork()
            if child == 0:
                sys.exit(0 if post() == 200 else 1)
            _, status = os.waitpid(child, 0)
            print(before, os.waitstatus_to_exitcode(status), post())
        """)
    )
    with raw_server(answering(answer(body=b"ok"))) as server:
        ran = subprocess.run(
            [sys.executable, "-W", "ignore::DeprecationWarning", str(script), server.url],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    assert ran.stdout.split() == ["200", "0", "200"], ran.stderr
    assert server.connections == 2


def test_after_a_shut_down_the_next_request_starts_anew() -> None:
    """Connections are closed by a shut-down, and a request after it opens a new one."""
    client = HttpClient()
    with raw_server(answering(answer())) as server:
        client.post(request(server.url))
        http_loop.shut_down()
        exchange = client.post(request(server.url))

    assert exchange.status == 200
    assert server.connections == 2


# --- bounds and secrets


def test_the_deadline_covers_every_part_together() -> None:
    """Slowness in headers and body adds up to one deadline instead of starting a new one in each part."""

    def a_little_late_everywhere(server: RawServer, connection: socket.socket) -> None:
        server.read_request(connection)
        for piece in (b"HTTP/1.1 200 OK\r\n", b"Content-Length: 1000\r\n\r\n", *[b"."] * 1_000):
            connection.sendall(piece)
            if server.over.wait(SHORT_S / 4):
                return

    with raw_server(a_little_late_everywhere) as server:
        exchange = post(server.url, deadline_s=SHORT_S)

    assert met(exchange) == (Phase.STATUS, ErrorKind.TIMEOUT, 200)
    assert len(exchange.body) < 1_000


@pytest.mark.parametrize("headers", [{"x-a": "b\r\nc: d"}, {"x-a\n": "b"}, {"x-a": "ü"}, {"x-a": "\0"}])
def test_a_header_that_could_end_its_line_is_refused(headers: dict[str, str]) -> None:
    """A request with a header of more than one line is never made."""
    with pytest.raises(InvalidInputError, match="printable ASCII on one line"):
        HttpRequest(url="http://127.0.0.1/", body=b"", headers=headers, total_deadline_s=1)


def test_a_request_without_time_is_refused() -> None:
    """A deadline of nothing is an error of the caller."""
    with pytest.raises(InvalidInputError, match="expected more than 0 s"):
        HttpRequest(url="http://127.0.0.1/", body=b"", headers={}, total_deadline_s=0)


@pytest.mark.parametrize("peer", [_silence, _garbage, _reset_after_body, answering(answer(body=SECRET))])
def test_no_payload_reaches_a_log_or_a_repr(
    caplog: pytest.LogCaptureFixture, peer: Callable[[RawServer, socket.socket], None]
) -> None:
    """Whatever becomes of an exchange, neither body nor header values are logged or shown."""
    caplog.set_level(logging.DEBUG)
    secret_text = SECRET.decode()
    with raw_server(peer) as server:
        sent = HttpRequest(
            url=server.url, body=SECRET, headers={"authorization": secret_text}, total_deadline_s=SHORT_S
        )
        exchange = HttpClient().post(sent)

    assert secret_text not in caplog.text
    assert secret_text not in repr(exchange)
    assert secret_text not in repr(sent)


def test_a_loop_that_is_stuck_does_not_keep_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the loop itself does not answer, the caller is released with nothing known."""
    monkeypatch.setattr("tasks.hooks.http_client._LOOP_GRACE_S", 0.0)
    let_go = threading.Event()
    http_loop.current().loop.call_soon_threadsafe(let_go.wait, AMPLE_S)

    exchange = post("http://127.0.0.1:9/", deadline_s=SHORT_S)
    let_go.set()

    assert met(exchange) == (Phase.SENT, ErrorKind.TIMEOUT, None)
    assert not exchange.not_sent
