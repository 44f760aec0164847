"""What begins and is not waited for, on a disk of tests."""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial

from ottla.ports import File, Folder

WhenOver = Callable[[Exception | None], None]


class KeepsToItself:
    """A file that takes no advice: what power loss leaves of it is by chance anyway."""

    __slots__ = ()

    def begin_writeback(self) -> None:
        """Nothing."""


class BeginsSyncs:
    """A disk that has `sync_files`, and so `begin_sync`."""

    async def sync_files(self, files: Iterable[File | Folder]) -> None:
        raise NotImplementedError

    def begin_sync(self, files: Iterable[File | Folder], when_over: WhenOver) -> None:
        """As the port says, after as much virtual time as the coroutine takes."""
        syncing = asyncio.get_running_loop().create_task(self.sync_files(files))
        syncing.add_done_callback(partial(_tell, when_over))


def _tell(when_over: WhenOver, syncing: "asyncio.Task[None]") -> None:
    if syncing.cancelled():
        return
    error = syncing.exception()
    if error is None or isinstance(error, Exception):
        when_over(error)  # who has lost power hears nothing
