"""The bare loopback: a process that takes requests and gives answers, and looks at neither.

It is the floor under any server on this machine that is written in Python: the same bytes over
the same sockets, with the fewest system calls, and no work in between.  With a folder it is the
floor under one that syncs, too: it writes as many bytes to a file there as it received, and answers
when they are synced; what comes meanwhile shares the next sync.

    python -m bench.bare REQUEST_BYTES RESPONSE_BYTES [FOLDER]

prints its port, then serves one connection after the other until its input ends.
"""

import os
import socket
import sys
import tempfile
import threading
from collections.abc import Callable

BUFFER_BYTES = 256 * 1024
ROOM_BYTES = 2 * 1024**3
"""Of the file; reserved before, so that syncs need not write down how long it has become."""

Keep = Callable[[int], None]
"""Stores so many requests."""


def serve(connection: socket.socket, request_bytes: int, response: bytes, keep: Keep) -> None:
    """Answer as soon as a request is whole; several that came together are answered together."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    buffer = bytearray(BUFFER_BYTES)
    unanswered_bytes = 0
    while count := connection.recv_into(buffer):
        unanswered_bytes += count
        due, unanswered_bytes = divmod(unanswered_bytes, request_bytes)
        if due:
            keep(due)
            connection.sendall(response * due)


def forget(request_count: int) -> None:
    """Store nothing."""


def on_disk(request_bytes: int, folder: str) -> Keep:
    """Store requests at the end of a new file in `folder`, and sync it."""
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        descriptor = os.dup(file.fileno())
    os.posix_fallocate(descriptor, 0, ROOM_BYTES)
    request, position = b"v" * request_bytes, 0

    def keep(request_count: int) -> None:
        nonlocal position
        for _ in range(request_count):
            position += os.pwrite(descriptor, request, position)
        os.fdatasync(descriptor)

    return keep


def main(request_bytes: int, response_bytes: int, folder: str = "") -> None:
    response = bytes(response_bytes)
    keep = on_disk(request_bytes, folder) if folder else forget
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        while True:
            connection, _ = listener.accept()
            with connection:
                serve(connection, request_bytes, response, keep)

    threading.Thread(target=accept, daemon=True).start()
    print(listener.getsockname()[1], flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
