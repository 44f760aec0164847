"""The real network: addresses of both kinds, and what is only true of real sockets."""

import asyncio
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from ottla.runtime.network import RealNetwork, _bind_each

CROWD_COUNT = 300


class Silent(asyncio.Protocol):
    def __init__(self) -> None:
        self.made: asyncio.Future[asyncio.BaseTransport] = (
            asyncio.get_running_loop().create_future()
        )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.made.set_result(transport)


def has_ipv6_loopback() -> bool:
    if not socket.has_ipv6:
        return False
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


needs_ipv6 = pytest.mark.skipif(not has_ipv6_loopback(), reason="this machine has no IPv6 loopback")


@pytest.mark.parametrize("host", ["127.0.0.1", pytest.param("::1", marks=needs_ipv6), "localhost"])
def test_loopback_is_reached_by_any_of_its_names(host: str) -> None:
    async def main() -> None:
        network = RealNetwork()
        listener = await network.listen(host, 0, Silent)
        _, port = listener.address
        connection = await network.connect(host, port, Silent)
        assert isinstance(connection, Silent)
        connection.made.result().close()
        listener.close()
        await asyncio.sleep(0)

    asyncio.run(main())


def test_every_address_of_a_host_gets_the_same_port() -> None:
    addresses = [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "127.0.0.2")]
    sockets = _bind_each(addresses, 0)
    ports = {bound.getsockname()[1] for bound in sockets}
    for bound in sockets:
        bound.close()
    assert len(sockets) == 2
    assert len(ports) == 1


def test_an_address_the_machine_does_not_have_is_left_out_if_there_is_another() -> None:
    not_ours = (socket.AF_INET, "192.0.2.1")  # reserved for documentation
    (bound,) = _bind_each([not_ours, (socket.AF_INET, "127.0.0.1")], 0)
    bound.close()
    with pytest.raises(OSError, match="assign requested address"):
        _bind_each([not_ours], 0)


def test_small_messages_are_not_held_back() -> None:
    async def main() -> None:
        network = RealNetwork()
        accepted: asyncio.Future[Silent] = asyncio.get_running_loop().create_future()

        def accept() -> Silent:
            accepted.set_result(Silent())
            return accepted.result()

        listener = await network.listen("127.0.0.1", 0, accept)
        near = await network.connect(*listener.address, Silent)
        for end in (near, await accepted):
            assert isinstance(end, Silent)
            transport = await end.made
            sock = transport.get_extra_info("socket")
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            transport.close()
        listener.close()
        await asyncio.sleep(0)

    asyncio.run(main())


def test_hundreds_may_connect_while_the_loop_is_busy() -> None:
    """With as few as asyncio lets wait by itself, the kernel turns the next one away for a second
    or more: a listener that is restarted has all of its clients at the door at once."""
    allowed = Path("/proc/sys/net/core/somaxconn")
    if allowed.exists() and int(allowed.read_text()) < CROWD_COUNT:
        pytest.skip("the kernel allows fewer")

    async def main() -> None:
        listener = await RealNetwork().listen("127.0.0.1", 0, Silent)
        with ExitStack() as crowd:
            for _ in range(CROWD_COUNT):  # nothing is awaited, so nobody is accepted meanwhile
                crowd.enter_context(socket.create_connection(listener.address, timeout=60))
        listener.close()
        await asyncio.sleep(0)

    asyncio.run(main())
