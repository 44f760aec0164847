"""What becomes of records that were sent: futures, callbacks, and failures that nobody looked at.

A `Delivery` is shared by all records of a batch, so what `send` returns is two numbers and a
reference: a `DeliveryFuture` becomes a real future when somebody asks it something.  That makes a
future that nobody looks at nearly free.

A failure counts as looked at when its future told it, or when it was given to a callback.  All
others are kept in `Failures`, for `flush` and `close` to raise.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from sys import getrefcount
from typing import Any, Final, NamedTuple

from ottla.client.bell import call_soon_in
from ottla.client.producer.kernel import kernel
from ottla.client.results import RecordMetadata
from ottla.errors import DeliveryError, DeliveryErrors, OttlaError

log = logging.getLogger(__name__)

OnDelivery = Callable[[RecordMetadata | None, DeliveryError | None], None]

NO_OFFSET: Final = -1
_KEPT_FAILURES: Final = 1000
"""Beyond this, failures of a program that never flushes are only counted."""


class Outcome(NamedTuple):
    """What became of the records from `first` on, up to the next outcome of the delivery."""

    first: int
    record_count: int
    base_offset: int
    append_time_ms: int
    error: OttlaError | None

    def offset_of(self, index: int) -> int:
        """The offset of one of these records; `NO_OFFSET` if nobody was told."""
        return NO_OFFSET if self.base_offset == NO_OFFSET else self.base_offset + index - self.first


class Delivery:
    """What becomes of the records of one batch.  Safe from any thread."""

    __slots__ = (
        "_callbacks",
        "_futures",
        "_is_all_seen",
        "_listeners",
        "_lock",
        "_outcomes",
        "_piece_count",
        "_seen",
        "_sleepers",
        "_waiters",
        "hasten",
        "is_done",
        "partition",
        "topic",
    )

    def __init__(self, topic: str, partition: int, hasten: Callable[[], None]) -> None:
        """`hasten` is called when somebody waits for it."""
        self.topic = topic
        self.partition = partition
        self.hasten = hasten
        self.is_done = False
        self._lock = threading.Lock()
        self._outcomes: list[Outcome] = []
        self._piece_count = 1
        self._futures: list[DeliveryFuture] = []
        self._callbacks: list[tuple[int, int, OnDelivery]] = []
        self._listeners: list[Callable[[Delivery], None]] = []
        self._waiters: dict[asyncio.AbstractEventLoop, _Waiters] = {}
        self._sleepers: list[threading.Lock] = []
        """Of each thread that waits, a lock that it cannot get before all is known."""
        self._seen: set[int] = set()
        self._is_all_seen = False

    # For who waits.

    def call_back(self, index: int, timestamp_ms: int, callback: OnDelivery) -> None:
        """Have `callback` called for the record at `index`, on the I/O thread."""
        with self._lock:
            if not self.is_done:
                self._callbacks.append((index, timestamp_ms, callback))
                return
        self._call(index, timestamp_ms, callback)

    def follow(self, index: int, timestamp_ms: int, callback: OnDelivery) -> None:
        """As `call_back`, for who only watches: a failure still counts as not looked at."""
        self.listen(lambda done: callback(*done.outcome(index, timestamp_ms)))

    def listen(self, listener: "Callable[[Delivery], None]") -> None:
        """Have `listener` called when all is known; at once, if it is."""
        with self._lock:
            if not self.is_done:
                self._listeners.append(listener)
                return
        listener(self)

    def wait(self, timeout_s: float | None) -> bool:
        """Have it hastened, and block until all is known; False if that took too long."""
        sleeper = threading.Lock()
        sleeper.acquire()
        with self._lock:
            if self.is_done:
                return True
            self._sleepers.append(sleeper)
        # The last thing before we sleep: whom it wakes wants to run, and not to wait for us.
        self.hasten()
        if sleeper.acquire(timeout=-1 if timeout_s is None else max(0.0, timeout_s)):
            return True
        with self._lock:
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)
        return self.is_done

    def awaitable(self, index: int, timestamp_ms: int) -> "asyncio.Future[RecordMetadata]":
        """A future of the running loop for the record at `index`."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[RecordMetadata] = loop.create_future()
        with self._lock:
            is_known = self.is_done
            # A failure that is known before anybody asks is looked at later all the same.
            if not is_known or self.error is not None:
                waiters = self._waiters.get(loop)
                if waiters is None:
                    waiters = self._waiters[loop] = _Waiters(self, loop)
                waiters.waiting.append((index, timestamp_ms, future))
        if is_known:
            self.tell(index, timestamp_ms, future)
        return future

    def tell(self, index: int, timestamp_ms: int, future: "asyncio.Future[RecordMetadata]") -> None:
        """Give a future of a loop its outcome, in that loop."""
        if not future.done():
            metadata, error = self.outcome(index, timestamp_ms)
            if error is None:
                assert metadata is not None
                future.set_result(metadata)
            else:
                future.set_exception(error)
                if self._is_all_seen:
                    future.exception()  # the end of a transaction told of it already

    def outcome(
        self, index: int, timestamp_ms: int
    ) -> tuple[RecordMetadata | None, DeliveryError | None]:
        """What became of one record, once all is known."""
        told = self._told(index)
        if told.error is not None:
            return None, DeliveryError(self.topic, self.partition, told.error)
        if told.append_time_ms >= 0:
            timestamp_ms = told.append_time_ms
        offset = told.offset_of(index)
        return RecordMetadata(self.topic, self.partition, offset, timestamp_ms), None

    def offset_of(self, index: int) -> int:
        """Where one record was written, once all is known; `NO_OFFSET` if nobody knows."""
        return self._told(index).offset_of(index)

    @property
    def outcomes(self) -> list[Outcome]:
        """In the order of the records; all of them once it is done."""
        return self._outcomes

    @property
    def error(self) -> OttlaError | None:
        """Why records were not delivered, if some were not."""
        for told in self._outcomes:
            if told.error is not None:
                return told.error
        return None

    # For who delivers.

    def split(self) -> None:
        """One piece of it becomes two."""
        self._piece_count += 1

    def settle(self, outcome: Outcome) -> None:
        """A piece is known; with the last one, tell everybody."""
        with self._lock:
            self._outcomes.append(outcome)
            self._piece_count -= 1
            if self._piece_count:
                return
            if len(self._outcomes) > 1:
                self._outcomes.sort()
            self.is_done = True
            sleepers, self._sleepers = self._sleepers, []
            futures, self._futures = self._futures, []
            callbacks, self._callbacks = self._callbacks, []
            listeners, self._listeners = self._listeners, []
            loops = list(self._waiters.values())
        for sleeper in sleepers:
            sleeper.release()
        for future in futures:
            future.resolve()
        for index, timestamp_ms, callback in callbacks:
            self._call(index, timestamp_ms, callback)
        for waiters in loops:
            waiters.wake()
        for listener in listeners:
            listener(self)

    # For who asks what nobody looked at.

    def see(self, index: int) -> None:
        """Somebody was told what became of this record."""
        self._seen.add(index)

    def see_all(self) -> None:
        """Somebody was told what became of all of them."""
        self._is_all_seen = True

    def unseen(self) -> list[tuple[DeliveryError, int]]:
        """Failures that nobody looked at, and of how many records; from now on they are seen."""
        found: list[tuple[DeliveryError, int]] = []
        if self._is_all_seen:
            return found
        with self._lock:
            loops = list(self._waiters.values())
        for waiters in loops:
            self._seen.update(waiters.seen())
        for told in self._outcomes:
            if told.error is not None:
                indexes = range(told.first, told.first + told.record_count)
                if count := sum(index not in self._seen for index in indexes):
                    found.append((DeliveryError(self.topic, self.partition, told.error), count))
        self.see_all()
        return found

    def _told(self, index: int) -> Outcome:
        assert self.is_done, "it is not known yet"
        for told in reversed(self._outcomes):
            if told.first <= index:
                return told
        raise AssertionError(index)

    def _call(self, index: int, timestamp_ms: int, callback: OnDelivery) -> None:
        self._seen.add(index)
        try:
            callback(*self.outcome(index, timestamp_ms))
        except Exception:
            log.exception("a delivery callback failed: %s-%d", self.topic, self.partition)


class _Waiters:
    """Futures of one event loop, which are told together: one wake-up for a batch."""

    __slots__ = ("_call_soon", "_delivery", "waiting")

    def __init__(self, delivery: Delivery, loop: asyncio.AbstractEventLoop) -> None:
        self._delivery = delivery
        self._call_soon = call_soon_in(loop)
        self.waiting: list[Waiting] = []

    def wake(self) -> None:
        # Who is not asked is not woken: most futures of `enqueue` are dropped at once.
        if not any(_is_asked(waiting) for waiting in self.waiting):
            return
        # Another thread may close its loop at any time: then nobody is left to be told.
        with suppress(RuntimeError):
            self._call_soon(self._tell)

    def seen(self) -> set[int]:
        """Which records' failures were retrieved, as asyncio itself keeps track of it."""
        return {
            index
            for index, _, future in self.waiting
            if future.done() and not future.cancelled() and not _is_unread(future)
        }

    def _tell(self) -> None:
        for waiting in self.waiting:
            if _is_asked(waiting):
                self._delivery.tell(*waiting)


Waiting = tuple[int, int, "asyncio.Future[RecordMetadata]"]
"""A record's place and time, and who waits for it."""


def _held_here() -> int:
    """References to a future that nobody else holds: the tuple, a name, perhaps the question.

    Measured as `_is_asked` asks, because versions of Python count names and arguments differently:
    who takes a future for forgotten that somebody holds leaves him waiting for ever.
    """
    sole: Any = object()
    waiting = (0, 0, sole)
    del sole
    _, _, future = waiting
    return getrefcount(future)


_HELD_HERE: Final = _held_here()


def _is_asked(waiting: Waiting) -> bool:
    """Whether anybody can: not a future that only we hold, and that calls nobody."""
    _, _, future = waiting
    return getrefcount(future) > _HELD_HERE or bool(future._callbacks)


def _is_unread(future: "asyncio.Future[Any]") -> bool:
    is_unread = bool(future._log_traceback)
    if is_unread:
        future._log_traceback = False  # the one who asks will tell of it
    return is_unread


class DeliveryFuture(kernel.Receipt, Future[RecordMetadata]):
    """The future of one record.  It costs little until it is asked something."""

    # It is made as a receipt; as a future, when something of that is first used.

    def __getattr__(self, name: str) -> Any:
        """Become a real future: whatever that has is asked for the first time."""
        if not name.startswith("_") or name.startswith("__"):
            raise AttributeError(name)
        delivery = self.delivery
        with delivery._lock:
            is_new = "_condition" not in self.__dict__
            if is_new:
                Future.__init__(self)
                is_known = delivery.is_done
                if not is_known:
                    delivery._futures.append(self)
        if is_new and is_known:
            self.resolve()
        return self.__dict__[name]

    def __repr__(self) -> str:
        delivery = self.delivery
        state = "done" if delivery.is_done else "pending"
        return f"<DeliveryFuture {delivery.topic}-{delivery.partition} #{self.index} {state}>"

    def resolve(self) -> None:
        """Take over the outcome of the delivery."""
        if not self.set_running_or_notify_cancel():
            return
        metadata, error = self.delivery.outcome(self.index, self.timestamp_ms)
        if error is None:
            assert metadata is not None
            self.set_result(metadata)
        else:
            self.set_exception(error)

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for the record to be written, and return where."""
        metadata, error = self._outcome(timeout)
        if error is not None:
            raise error
        assert metadata is not None
        return metadata

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for what becomes of the record, and return why it was not written, if so."""
        _, error = self._outcome(timeout)
        return error

    def _outcome(
        self, timeout_s: float | None
    ) -> tuple[RecordMetadata | None, DeliveryError | None]:
        # Without becoming a real future, whose locks and lists are half the price of a round trip.
        delivery, index = self.delivery, self.index
        if not delivery.is_done and not delivery.wait(timeout_s):
            raise TimeoutError
        delivery.see(index)
        return delivery.outcome(index, self.timestamp_ms)

    def add_done_callback(self, fn: Callable[["Future[RecordMetadata]"], object]) -> None:
        """Have `fn` called, on the I/O thread; what it is told counts as looked at."""
        self.delivery.see(self.index)
        super().add_done_callback(fn)

    def cancel(self) -> bool:
        """A record that was sent cannot be taken back."""
        return False


class Failures:
    """Deliveries that failed; kept until somebody is told.  Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failed: list[Delivery] = []
        self._forgotten_count = 0
        self._last_forgotten: list[DeliveryError] = []
        """One of them, for the case that there is nothing else to tell."""

    def add(self, delivery: Delivery) -> None:
        """Keep a delivery that failed, in part at least."""
        with self._lock:
            self._failed.append(delivery)
            if len(self._failed) <= _KEPT_FAILURES:
                return
            oldest = self._failed.pop(0)
        if forgotten := oldest.unseen():
            with self._lock:
                self._forgotten_count += sum(count for _, count in forgotten)
                self._last_forgotten = [error for error, _ in forgotten]

    def tell(self) -> None:
        """Raise what nobody looked at, once."""
        if (failures := self.take()) is not None:
            raise failures

    def take(self) -> DeliveryErrors | None:
        """What nobody looked at, once; one error for each batch."""
        with self._lock:
            failed, self._failed = self._failed, []
            total, self._forgotten_count = self._forgotten_count, 0
            forgotten, self._last_forgotten = self._last_forgotten, []
        errors = []
        for delivery in failed:
            for error, count in delivery.unseen():
                errors.append(error)
                total += count
        errors = errors or forgotten
        if not errors:
            return None
        records = "record was" if total == 1 else "records were"
        return DeliveryErrors(f"{total} {records} not delivered", errors)
