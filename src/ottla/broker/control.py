"""The control socket in the data directory: whoever may use the folder can ask for a copy of it.

A copy belongs to its connection, and goes with it, however that ends.  Whoever keeps one for too
long loses it: what is deleted meanwhile takes room until then.  Whoever has none and says nothing
is hung up on: there is room for a few only.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.errors import StorageError
from ottla.runtime import control

if TYPE_CHECKING:
    from ottla.broker.freezing import Freezer

log = logging.getLogger(__name__)

MAX_CONNECTIONS: Final = 16
MAX_QUESTION_BYTES: Final = 64
MAX_HELD_S: Final = 24 * 60 * 60.0
"""How long a copy is kept: some terabytes can be packed in that time."""
MAX_SILENCE_S: Final = 10 * 60.0
"""How long somebody may say nothing who has no copy."""


class ControlSocket:
    """Listens in `folder`, from `open` to `close`."""

    def __init__(self, folder: str, *, max_held_s: float = MAX_HELD_S) -> None:
        self._folder = folder
        self._max_held_s = max_held_s
        self.max_silence_s = MAX_SILENCE_S
        self._freezer_of: Callable[[], Freezer] | None = None
        self._server: asyncio.Server | None = None
        self._talks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def open(self, freezer: "Callable[[], Freezer]") -> None:
        """Listen.  Where that cannot be, a warning says so: the broker does without."""
        self._freezer_of = freezer
        try:
            bound = control.listen(self._folder)
        except OSError as error:
            log.warning("no control socket, snapshots need the broker stopped: %s", error)
            return
        self._server = await asyncio.start_unix_server(
            self._serve, sock=bound, limit=MAX_QUESTION_BYTES
        )

    async def close(self) -> None:
        """Hang up, and let go of copies."""
        self._hang_up()
        await asyncio.gather(*self._talks, return_exceptions=True)

    def abandon(self) -> None:
        """Hang up at once, as if the process had ended: a copy stays until the next start."""
        if self._freezer_of is not None and self._talks:
            self._freezer_of().abandon()
        self._hang_up()

    def _hang_up(self) -> None:
        if self._server is not None:
            self._server.close()
            control.remove(self._folder)
        for writer in self._talks.values():
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            if len(self._talks) < MAX_CONNECTIONS:
                self._talks[task] = writer
                await self._converse(reader, writer)
        except (OSError, StorageError, ValueError) as error:  # or no end of a line in sight
            log.warning("control connection ended: %s", error)
        finally:
            self._talks.pop(task, None)
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One copy at most, and then the end."""
        from ottla.snapshot import control as words  # here: most brokers start, and are never asked

        assert self._freezer_of is not None
        freezer = self._freezer_of()
        question: bytes | None = await self._next_line(reader)
        if not question:
            return  # it has hung up
        if question != words.FREEZE:
            await _say(writer, words.refused(f"it does not know {question!r}"))
            return
        try:
            frozen = await freezer.freeze()
        except (StorageError, OSError) as error:
            await _say(writer, words.refused(str(error)))
            return
        held_s = self._max_held_s
        try:
            async with asyncio.timeout(held_s):
                await _say(writer, words.frozen(frozen.folder, frozen.ends))
                question = await reader.readline()
        except TimeoutError:
            log.warning("copy let go of, nobody released it: held_s=%g", held_s)
            question = None
        finally:
            await freezer.thaw()
        if question is None:
            await _say(writer, words.refused(f"it keeps a copy for {held_s:g} s and no longer"))
            await self._next_line(reader)  # so that it is told, and not hung up on
        elif question == words.RELEASE:
            await _say(writer, words.RELEASED)

    async def _next_line(self, reader: asyncio.StreamReader) -> bytes:
        """What is said next; nothing, if it has hung up, or is silent for too long."""
        try:
            async with asyncio.timeout(self.max_silence_s):
                return await reader.readline()
        except TimeoutError:
            return b""


async def _say(writer: asyncio.StreamWriter, line: bytes) -> None:
    writer.write(line)
    await writer.drain()
