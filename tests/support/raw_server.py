"""
A TCP server whose connections are handled by a plain function, for answers that no HTTP server would give.

Each connection has a thread. What a test forgets to let go is closed when the block ends.
"""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

Handler = Callable[["RawServer", socket.socket], None]
#: Bounds a handler that waits for a client which never speaks again.
_LONGEST_WAIT_S = 20.0


@dataclass
class RawServer:
    """Hold a running server: where it listens, and what it saw."""

    port: int
    #: Number of connections accepted so far.
    connections: int = 0
    requests: list[bytes] = field(default_factory=list)
    #: Set when the block ends; handlers that stall wait for it.
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        """Return the address as an http URL."""
        return f"http://127.0.0.1:{self.port}/"

    def read_request(self, connection: socket.socket) -> bytes:
        """Read one whole request, keep it and return it; empty when the client has closed."""
        read = read_request(connection)
        if read:
            self.requests.append(read)
        return read

    def stall(self) -> None:
        """Say nothing until the block ends."""
        self.over.wait(_LONGEST_WAIT_S)


@contextlib.contextmanager
def raw_server(handler: Handler, *, receive_buffer_bytes: int | None = None) -> Iterator[RawServer]:
    """Run a server on a free loopback port; `handler` gets the server and each connection."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        if receive_buffer_bytes is not None:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        server = RawServer(port=listener.getsockname()[1])
        accepting = threading.Thread(target=_accept, args=(listener, handler, server), daemon=True)
        accepting.start()
        try:
            yield server
        finally:
            server.over.set()
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join(_LONGEST_WAIT_S)


def answer(*, status: str = "200 OK", headers: str = "", body: bytes = b"") -> bytes:
    """Return a complete HTTP response."""
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body


def answering(response: bytes) -> Handler:
    """Return a handler that gives the same answer to every request of a connection."""

    def handle(server: RawServer, connection: socket.socket) -> None:
        while server.read_request(connection):
            connection.sendall(response)

    return handle


def read_request(connection: socket.socket) -> bytes:
    """Read one request to the end of its body; what came so far if the client closes."""
    read = b""
    while b"\r\n\r\n" not in read:
        chunk = connection.recv(65_536)
        if not chunk:
            return read
        read += chunk
    head, _, body = read.partition(b"\r\n\r\n")
    # A GET has no body and says nothing of its length.
    length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
    while len(body) < length:
        chunk = connection.recv(65_536)
        if not chunk:
            break
        body += chunk
    return head + b"\r\n\r\n" + body


def reset(connection: socket.socket) -> None:
    """Close the connection with a reset instead of an orderly end."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def _accept(listener: socket.socket, handler: Handler, server: RawServer) -> None:
    threads = []
    open_connections = []
    with contextlib.suppress(OSError):  # the listener is shut down when the block ends
        while True:
            connection, _ = listener.accept()
            server.connections += 1
            open_connections.append(connection)
            thread = threading.Thread(target=_handle, args=(handler, server, connection), daemon=True)
            thread.start()
            threads.append(thread)
    for connection in open_connections:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
    for thread in threads:
        thread.join(_LONGEST_WAIT_S)


def _handle(handler: Handler, server: RawServer, connection: socket.socket) -> None:
    # The client may be gone before the handler is: that is what these tests are about.
    with connection, contextlib.suppress(OSError):
        handler(server, connection)
