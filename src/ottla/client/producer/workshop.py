"""Batches that the I/O thread builds itself, each right before it is sent.

To build a batch of columns takes about as long as to send it.  Two threads that did both at once
would wake each other all the time, and with the broker they want three processors: where there are
two, one of the three waits behind another while a processor has nothing to do.  One thread has no
need of that, and finds in its cache what it has just written.

The caller waits until the last batch is built.  Where it would wait for somebody else, because
batches do not leave or memory is lacking, it gets its order back, and builds the rest by itself.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from ottla.client.producer.batch import PendingBatch
from ottla.client.producer.lines import Accumulator
from ottla.errors import OttlaError

_PATIENCE_S: Final = 0.05
"""How long an order may rest before its caller takes it back."""


class Order:
    """Batches to be built, one after the other."""

    def __init__(self, batches: Iterator[PendingBatch], most_bytes: int) -> None:
        """`batches` builds one each time it is asked, of `most_bytes` at the most."""
        self._batches = batches
        self._error: Exception | None = None
        self._is_over = threading.Event()
        self._seen_count = 0
        self.most_bytes = most_bytes
        self.built_count = 0
        self.last: PendingBatch | None = None
        """What was built last."""
        self.in_hand = threading.Lock()
        """Held while one is built: nobody else may touch the batches meanwhile."""

    @property
    def is_free(self) -> bool:
        """Whether the next batch may be built: the last one does not wait to be sent any more."""
        return self.last is None or self.last.has_left

    def build_next(self) -> bool:
        """Build the next one, if there is one; it is held, and is let go."""
        try:
            self.last = next(self._batches, None)
            self.built_count += 1
        except Exception as error:  # the caller is told, who waits for it
            self._error, self.last = error, None
        finally:
            self.in_hand.release()
        return self.last is not None

    def end(self, error: Exception | None = None) -> None:
        """Let the caller go on."""
        self._error = self._error or error
        self._is_over.set()

    def wait(self) -> bool:
        """Wait a while; whether it is over.  Raises what went wrong."""
        if not self._is_over.wait(_PATIENCE_S):
            return False
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback has this frame, and this frame the table
        return True

    def has_rested(self) -> bool:
        """Whether nothing was built since this was asked before, nor is now."""
        seen_count, self._seen_count = self._seen_count, self.built_count
        return seen_count == self.built_count and not self.in_hand.locked()


class Workshop:
    """The orders of all callers, who take turns.  `lock` is that of the producer."""

    def __init__(self, lock: threading.Lock, lines: Accumulator) -> None:
        self._lock = lock
        self._lines = lines
        self._orders: deque[Order] = deque()
        self._failure: OttlaError | None = None

    # From any thread but the I/O thread.

    def carry_out(self, order: Order, wake: Callable[[], None]) -> None:
        """Have it done, and wait for it: until it is over, or nothing comes of it for a while.

        What was not built is left in its iterator, which is the caller's again.
        """
        try:
            with self._lock:
                if self._failure is not None:
                    raise self._failure.with_traceback(None)
                self._orders.append(order)
            wake()
            while not order.wait():
                with self._lock:
                    if order in self._orders and order.has_rested():
                        break
        finally:
            with self._lock:  # it may have been interrupted
                self._drop(order)
            with order.in_hand:
                pass  # when that is ours, nobody reads the table any more

    # On the I/O thread.

    def build_next(self) -> bool:
        """Build a batch of whose turn it is, unless its last one waits to be sent; whether it did.

        An order that cannot go on, because it is done or there is no memory, is over.
        """
        while (order := self._taken_up()) is not None:
            with self._lock:
                has_memory = self._lines.reserve(order.most_bytes)
            if not has_memory:
                order.in_hand.release()
                self._finish(order)
                continue
            try:
                is_built = order.build_next()
            finally:
                with self._lock:
                    self._lines.release(order.most_bytes)
            if is_built:
                return True
            self._finish(order)
        return False

    def interrupt(self, error: OttlaError) -> None:
        """End what is under way: its callers are told."""
        with self._lock:
            orders, self._orders = self._orders, deque()
        for order in orders:
            order.end(error)

    def close(self, error: OttlaError) -> None:
        """Nothing more is built, now and for whoever comes."""
        with self._lock:
            self._failure = error
        self.interrupt(error)

    def _taken_up(self) -> Order | None:
        """The order whose turn it is, held."""
        with self._lock:
            for order in self._orders:
                if order.is_free:
                    self._orders.remove(order)
                    self._orders.append(order)  # others first, the next time
                    order.in_hand.acquire()
                    return order
        return None

    def _finish(self, order: Order) -> None:
        with self._lock:
            self._drop(order)
        order.end()

    def _drop(self, order: Order) -> None:
        if order in self._orders:
            self._orders.remove(order)
