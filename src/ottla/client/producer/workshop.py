"""Batches that the I/O thread builds itself, each right before it is sent.

To build a batch of columns takes about as long as to send it.  Two threads that did both at once
would wake each other all the time, and with the broker they want three processors: where there are
two, one of the three waits behind another while a processor has nothing to do.  One thread has no
need of that, and finds in its cache what it has just written.  The caller waits meanwhile, as it
would if it built them, and none of its data is looked at when it goes on.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator

from ottla.client.producer.batch import PendingBatch
from ottla.errors import OttlaError


class Order:
    """Batches to be built, one after the other."""

    def __init__(self, batches: Iterator[PendingBatch], most_bytes: int) -> None:
        """`batches` builds one each time it is asked, of `most_bytes` at the most."""
        self._batches = batches
        self._error: Exception | None = None
        self._is_over = threading.Event()
        self.most_bytes = most_bytes

    def build_next(self) -> PendingBatch | None:
        """The next one; None if there are no more, or it failed."""
        try:
            return next(self._batches, None)
        except Exception as error:  # the caller is told, who waits for it
            self._error = error
            return None

    def end(self, error: Exception | None = None) -> None:
        """Let the caller go on."""
        self._error = self._error or error
        self._is_over.set()

    def wait(self) -> None:
        """Wait until it is over; raises what went wrong."""
        self._is_over.wait()
        if self._error is not None:
            raise self._error


class Workshop:
    """The orders of all callers, first come, first served.  `lock` is that of the producer."""

    def __init__(self, lock: threading.Lock, has_room: Callable[[int], bool]) -> None:
        """`has_room` says whether there is memory for a batch; it is called with the lock."""
        self._lock = lock
        self._has_room = has_room
        self._orders: deque[Order] = deque()
        self._last: PendingBatch | None = None
        """What was built last, while it may wait to be sent."""
        self._failure: OttlaError | None = None

    # From any thread but the I/O thread.

    def carry_out(self, order: Order, wake: Callable[[], None]) -> None:
        """Have it done, and wait for it.

        Where there is no memory for the next batch, it is over, too: the caller knows how to wait
        for that, and what was not built is left in its iterator.
        """
        try:
            with self._lock:
                if self._failure is not None:
                    raise self._failure.with_traceback(None)
                self._orders.append(order)
            wake()
            order.wait()
        finally:
            with self._lock:  # it may have been interrupted
                self._drop(order)

    # On the I/O thread.

    def build_next(self) -> bool:
        """Build a batch, unless one that was built still waits to be sent; whether it did."""
        while True:
            with self._lock:
                if not self._orders or not (self._last is None or self._last.has_left):
                    return False
                order = self._orders[0]
                may_build = self._has_room(order.most_bytes)
            self._last = order.build_next() if may_build else None
            if self._last is not None:
                return True
            with self._lock:
                self._drop(order)
            order.end()

    def close(self, error: OttlaError) -> None:
        """Nothing more is built, now and for whoever comes."""
        with self._lock:
            self._failure = error
            orders, self._orders = self._orders, deque()
        for order in orders:
            order.end(error)

    def _drop(self, order: Order) -> None:
        if order in self._orders:
            self._orders.remove(order)
