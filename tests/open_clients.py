"""Which clients of ours are open in this process: each has a thread until it is closed.

A client that nobody closes goes on asking for its broker, and complains into the output of whatever
test runs then.
"""

import threading
import time
from collections.abc import Collection
from typing import Final

from ottla.runtime.thread import LoopThread
from ottla.testing.faults import PROBE_CLIENT_ID

PATIENCE_S: Final = 60.0
OTHERS: Final = frozenset({"ottla-broker", "ottla-test-broker", PROBE_CLIENT_ID})
"""Threads of brokers, and of the client that belongs to one: fixtures may keep those for longer."""


def open_clients() -> set[threading.Thread]:
    """The threads of all that are open now."""
    return {thread for thread in threading.enumerate() if _is_of_client(thread)}


def left_open(before: Collection[threading.Thread], patience_s: float = PATIENCE_S) -> list[str]:
    """The names of clients that were not open before, and are not being closed either."""
    deadline_s = time.monotonic() + patience_s
    left = open_clients().difference(before)
    for thread in left:
        thread.join(max(0.0, deadline_s - time.monotonic()))
    return sorted(thread.name for thread in left if thread.is_alive())


def _is_of_client(thread: threading.Thread) -> bool:
    """Whether it is a loop for a client; the name does not tell, since users may choose it."""
    host = getattr(getattr(thread, "_target", None), "__self__", None)
    return isinstance(host, LoopThread) and thread.name not in OTHERS
