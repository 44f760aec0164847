"""TCP on the real machine.

asyncio drives a `BufferedProtocol` without a copy: use one wherever large messages arrive.
"""

import asyncio
import errno
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from ottla.runtime.attention import AttentiveLoop

if TYPE_CHECKING:
    from ssl import SSLContext

BACKLOG: Final = 4_096
"""Connections that may wait to be accepted; the kernel may allow fewer (net.core.somaxconn).

All that come back at once after a restart shall find a place: who finds none tries again a second
later.
"""

_BIND_ATTEMPTS: Final = 8
_OURS: Final = ("", "localhost")
"""Names of this machine that no resolver is asked for (RFC 6761)."""


class RealListener:
    """See `ottla.ports.Listener`.  A host name with several addresses is listened to on each."""

    def __init__(self, servers: Sequence[asyncio.Server], address: tuple[str, int]) -> None:
        self._servers = servers
        self._address = address

    @property
    def address(self) -> tuple[str, int]:
        return self._address

    def close(self) -> None:
        for server in self._servers:
            server.close()


class RealNetwork:
    """See `ottla.ports.Network`."""

    async def listen(
        self, host: str, port: int, accept: Callable[[], asyncio.BaseProtocol]
    ) -> RealListener:
        """As the port says; port 0 takes a free one, `""` is every address of the machine."""
        loop = asyncio.get_running_loop()
        addresses = await _addresses(host, port)
        sockets = _bind_all(addresses, port)
        # For the loop, the backlog is how many it accepts in a turn.  If the process may have no
        # more descriptors, Python 3.11 tells of it so many times, and tries again so many times a
        # second later: with more than one, that grows until nobody else is served.
        servers = [await loop.create_server(accept, sock=bound, backlog=1) for bound in sockets]
        for bound in sockets:
            bound.listen(BACKLOG)  # once more: the loop has let only that one wait
        bound_host, bound_port = sockets[0].getsockname()[:2]
        return RealListener(servers, (bound_host, bound_port))

    async def connect(
        self,
        host: str,
        port: int,
        protocol: Callable[[], asyncio.BaseProtocol],
        *,
        tls: "SSLContext | None" = None,
    ) -> asyncio.BaseProtocol:
        loop = asyncio.get_running_loop()
        _, made = await loop.create_connection(protocol, host, port, ssl=tls)
        return made

    def expect_much(self) -> None:
        loop = asyncio.get_running_loop()
        if isinstance(loop, AttentiveLoop):
            loop.attention.sleep_next()


async def _addresses(host: str, port: int) -> Sequence[tuple[int, str | int]]:
    """Where a name is, family by family; every interface without a name."""
    # As bytes, a name that is plain is taken as it is; as text, all of IDNA is imported for it.
    name = host.encode("ascii") if host.isascii() else host
    resolve = partial(
        socket.getaddrinfo, name or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    if host in _OURS or _is_numeric(name):
        found = resolve()  # which asks nobody, and is done before a thread would have started
    else:
        found = await asyncio.get_running_loop().run_in_executor(None, resolve)
    return list(dict.fromkeys((family, to[0]) for family, _, _, _, to in found))


def _is_numeric(name: bytes | str) -> bool:
    try:
        socket.getaddrinfo(name, None, flags=socket.AI_NUMERICHOST)
    except OSError:
        return False
    return True


def _bind_all(addresses: Sequence[tuple[int, str | int]], port: int) -> list[socket.socket]:
    """Bind the same port at each address.

    A port that the kernel chose for the first address may be taken at the second: then it chooses
    again, a few times.
    """
    for _ in range(_BIND_ATTEMPTS - 1):
        try:
            return _bind_each(addresses, port)
        except OSError as error:
            if port or error.errno != errno.EADDRINUSE:
                raise
    return _bind_each(addresses, port)


def _bind_each(addresses: Sequence[tuple[int, str | int]], port: int) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    missing: OSError | None = None
    try:
        for family, host in addresses:
            try:
                bound = _bind(family, str(host), port)
            except OSError as error:
                # The name has an IPv6 address (localhost often has) and the machine has no IPv6.
                if error.errno not in {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}:
                    raise
                missing = error
            else:
                sockets.append(bound)
                port = port or bound.getsockname()[1]
        if missing is not None and not sockets:
            raise missing
    except BaseException:
        for bound in sockets:
            bound.close()
        raise
    return sockets


def _bind(family: int, host: str, port: int) -> socket.socket:
    # asyncio sets TCP_NODELAY on connections whose socket names its protocol, and on no others;
    # those that are accepted inherit it.  socket.create_server leaves it out.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # IPv4 has a socket of its own, where it is wanted.
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind((host, port))
        bound.listen(BACKLOG)
    except OSError:
        bound.close()
        raise
    return bound
