"""
How connections are made: guarded addresses, verified TLS, and a note of each step in the exchange's progress.

`http_client` makes one connector per process from these parts.
"""

import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from reliability.errors import ConfigurationError
from tasks.hooks import http_progress
from tasks.hooks.address_guard import AddressGuard
from tasks.hooks.http_exchange import Phase

#: How long an answer of the name server is used again.
_DNS_CACHE_S = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Name the PEM files of a TLS connection that differ from the system's: own authorities, own certificate."""

    ca_file: Path | None = None
    client_certificate_file: Path | None = None
    client_key_file: Path | None = None

    def named(self) -> str:
        """List the files that are set."""
        return ", ".join(
            str(name) for name in (self.ca_file, self.client_certificate_file, self.client_key_file) if name
        )


class _NotingContext(ssl.SSLContext):
    """A TLS context that notes when a handshake begins, which no signal of the client tells."""

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,  # noqa: FBT001, FBT002  # the signature of the base class
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        http_progress.current.get().reach(Phase.TLS)
        return super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)


class _GuardedResolver(AbstractResolver):
    """Resolve names, and refuse a name that has even one closed address: it may be on its way to another."""

    def __init__(self, guard: AddressGuard) -> None:
        self._guard = guard
        self._resolver = aiohttp.ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await self._resolver.resolve(host, port, family)
        for answer in found:
            self._guard.check(answer["host"])
        return found

    async def close(self) -> None:
        await self._resolver.close()


def tls_context(files: TlsFiles) -> ssl.SSLContext:
    """
    Make a context that verifies the peer's certificate and name; it reads files, so make it at start.

    Raises:
        ConfigurationError: A file cannot be read or holds no PEM.

    """
    context = _NotingContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_default_certs()
    context.set_alpn_protocols(("http/1.1",))
    try:
        if files.ca_file:
            context.load_verify_locations(files.ca_file)
        if files.client_certificate_file:
            context.load_cert_chain(files.client_certificate_file, files.client_key_file)
    except OSError as error:  # an SSLError is one too
        raise ConfigurationError(f"TLS files: expected readable PEM in {files.named()}; check their paths") from error
    return context


def connector(guard: AddressGuard, tls: ssl.SSLContext, keepalive_s: float) -> aiohttp.TCPConnector:
    """Make the connector; call it on the loop that is going to use it."""
    return aiohttp.TCPConnector(
        ssl=tls,
        resolver=_GuardedResolver(guard),
        socket_factory=_socket_factory(guard),
        # Callers bound how many requests run at once; waiting for a free connection would eat into their deadlines.
        limit=0,
        keepalive_timeout=keepalive_s,
        ttl_dns_cache=_DNS_CACHE_S,
    )


def _socket_factory(guard: AddressGuard) -> aiohttp.SocketFactoryType:
    def make(address_info: aiohttp.AddrInfoType) -> socket.socket:
        family, kind, protocol, _, address = address_info
        # An address written into the URL meets no resolver, so this is where every connection passes.
        guard.check(str(address[0]))
        http_progress.current.get().reach(Phase.CONNECT)
        return socket.socket(family, kind, protocol)

    return make
