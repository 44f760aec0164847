"""The connection of one client: when it was last heard of, what is owed to it, how it ends."""

import asyncio

from ottla.broker.answers import Answers


class Connection(asyncio.BufferedProtocol):
    """What a session has of its transport.  Everything happens in the loop that owns it."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._unwritten_bytes = 0
        self._answers = Answers()
        self.peer: tuple[str, int] = ("", 0)
        self.last_active = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.peer = tuple((transport.get_extra_info("peername") or ("", 0))[:2])
        self._loop = asyncio.get_running_loop()
        self.last_active = self._loop.time()

    @property
    def is_open(self) -> bool:
        """Whether the connection is there, and nobody has closed it."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def is_waiting(self) -> bool:
        """Whether the client waits for an answer of ours."""
        return self._answers.count > 0

    def note_progress(self) -> None:
        """Take note if the peer has read some of what waits to be written to it."""
        unwritten_bytes = self._transport.get_write_buffer_size() if self._transport else 0
        if unwritten_bytes < self._unwritten_bytes:
            self.last_active = self._loop.time()
        self._unwritten_bytes = unwritten_bytes

    def expire(self) -> None:
        """Close a connection that has been idle: at once if the peer does not read, either."""
        if self._transport is not None and self._transport.get_write_buffer_size():
            self.abort()
        else:
            self.close()

    def close(self) -> None:
        """Close after what was answered has left."""
        self._write_ready()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    def _write_ready(self) -> None:
        """Write the responses at the head of the queue that may leave."""
        if self._transport is not None:
            self._answers.write_to(self._transport)
