"""Syncing folders: the names in them become durable.

A folder has to be opened for it, in a thread, and for a moment only: thousands may be synced at a
time.  If connections have all descriptors that the process may have, that would have to wait for
one of them to end, and every answer with it.  So one descriptor is kept for that case.
"""

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from ottla.ports import TOO_MANY_OPEN

PATIENCE_MS: Final = 10_000
"""How long a folder waits for a descriptor if even the spare one is taken: clients wait longer."""

RETRY_MS: Final = 1
"""How soon it is tried again whether there is a descriptor."""


class FolderSyncs:
    """Syncs folders, in any thread.  It keeps a descriptor, at first that of `root`."""

    def __init__(self, root: str, *, patience_ms: int = PATIENCE_MS) -> None:
        self._patience_ms = patience_ms
        self._root = root
        self._lock = threading.Lock()
        self._keeps_spare = True
        self._spare: int | None = open_folder(root)

    def sync(self, folder: str) -> None:
        """Return once the names in `folder`, an absolute path, would survive power loss.

        One that is gone by now was deleted, and nobody misses what was in it.
        """
        try:
            descriptor = self._descriptor_of(folder)
        except FileNotFoundError:
            self._renew_spare()
            return
        self._finish(descriptor)

    def sync_at_once(self, opened: Callable[[], int]) -> None:
        """The same without waiting for a descriptor: `opened` gives that of the folder."""
        try:
            descriptor = opened()
        except OSError as error:
            if error.errno not in TOO_MANY_OPEN or not self._let_spare_go():
                raise
            descriptor = opened()
        self._finish(descriptor)

    def close(self) -> None:
        """Give up the spare descriptor, for good."""
        self._keeps_spare = False
        self._let_spare_go()

    def _descriptor_of(self, folder: str) -> int:
        deadline_s = time.monotonic() + self._patience_ms / 1000
        while True:
            try:
                return open_folder(folder)
            except OSError as error:
                if error.errno not in TOO_MANY_OPEN:
                    raise
                if not self._let_spare_go():
                    if time.monotonic() > deadline_s:
                        raise
                    time.sleep(RETRY_MS / 1000)

    def _let_spare_go(self) -> bool:
        with self._lock:
            spare, self._spare = self._spare, None
        if spare is None:
            return False
        os.close(spare)
        return True

    def _renew_spare(self) -> None:
        """Have one again, although the folder it was given up for was not there."""
        if self._spare is None:
            with suppress(OSError):
                self._put_back(open_folder(self._root))

    def _finish(self, descriptor: int) -> None:
        """Sync a folder, and be done with its descriptor."""
        try:
            # Not `fdatasync`: that need not bring names to disk where the folder does not grow.
            os.fsync(descriptor)
        finally:
            self._put_back(descriptor)

    def _put_back(self, descriptor: int) -> None:
        """It is the spare one from now on, if there is none.

        Were it closed and opened again, a connection could come in between.
        """
        with self._lock:
            if self._keeps_spare and self._spare is None:
                self._spare = descriptor
                return
        os.close(descriptor)


def open_folder(absolute: str) -> int:
    """A descriptor of a folder, which the caller closes."""
    return os.open(absolute, os.O_RDONLY | os.O_DIRECTORY)
