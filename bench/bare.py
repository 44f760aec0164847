"""The bare loopback: a process that takes requests and gives answers, and looks at neither.

It is the floor under any server on this machine that is written in Python: the same bytes over
the same sockets, with the fewest system calls, and no work in between.

    python -m bench.bare REQUEST_BYTES RESPONSE_BYTES

prints its port, then serves one connection after the other until its input ends.
"""

import socket
import sys
import threading

BUFFER_BYTES = 256 * 1024


def serve(connection: socket.socket, request_bytes: int, response: bytes) -> None:
    """Answer as soon as a request is whole; several that came together are answered together."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    buffer = bytearray(BUFFER_BYTES)
    unanswered_bytes = 0
    while count := connection.recv_into(buffer):
        unanswered_bytes += count
        due, unanswered_bytes = divmod(unanswered_bytes, request_bytes)
        if due:
            connection.sendall(response * due)


def main(request_bytes: int, response_bytes: int) -> None:
    response = bytes(response_bytes)
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        while True:
            connection, _ = listener.accept()
            with connection:
                serve(connection, request_bytes, response)

    threading.Thread(target=accept, daemon=True).start()
    print(listener.getsockname()[1], flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
