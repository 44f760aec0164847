"""A socket in a folder, for whoever may use that folder: no port, no name, no password.

Only the user whose process listens can connect.  A path may be longer than the hundred bytes that
sockets have for their names; then Linux offers a shorter way, by the number of an open folder.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

CONTROL_SOCKET: Final = ".control"
MAX_PATH_BYTES: Final = 100
"""Systems allow 104 to 108."""


def listen(folder: str) -> socket.socket:
    """A socket that listens in `folder`, and takes the place of one that was left there.

    The caller has locked the folder, so nobody else listens there.
    """
    path = os.path.join(folder, CONTROL_SOCKET)
    with suppress(FileNotFoundError):
        os.unlink(path)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short_path(folder) as short:
            bound.bind(short)
        os.chmod(path, 0o600)  # before it listens, nobody can connect
        bound.listen()
    except OSError:
        bound.close()
        raise
    return bound


def connect(folder: str, *, timeout_s: float) -> socket.socket:
    """A connection to whoever listens in `folder`.

    Raises:
        OSError: Nobody does.
    """
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connected.settimeout(timeout_s)
    try:
        with _short_path(folder) as short:
            connected.connect(short)
    except OSError:
        connected.close()
        raise
    return connected


def remove(folder: str) -> None:
    """Take the socket out of `folder`, if it is there."""
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, CONTROL_SOCKET))


@contextmanager
def _short_path(folder: str) -> Iterator[str]:
    path = os.path.join(folder, CONTROL_SOCKET)
    if len(os.fsencode(path)) <= MAX_PATH_BYTES:
        yield path
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{CONTROL_SOCKET}"
    finally:
        os.close(descriptor)
