"""Sockets of kafka-python that close themselves when nobody has them any longer.

It (3.0.12) forgets those whose connection was refused, took too long, or was still being made when
the client was closed.  Python complains of each when it is collected, in whatever test runs then.
"""

import socket
import warnings
from typing import Any

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    from kafka.net.inet import KafkaNetSocket


class ClosesItself(socket.socket):
    """One that may be forgotten."""

    def __del__(self) -> None:
        if self.fileno() >= 0:  # it may never have been made
            self.close()


def _new_socket(_: Any, family: int, kind: int, protocol: int) -> socket.socket:
    return ClosesItself(family, kind, protocol)


KafkaNetSocket.socket = _new_socket
