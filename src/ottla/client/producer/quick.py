"""The quick way into a batch, for records that are plain bytes and have to wait for nothing.

`send` tries it first.  Whatever is unusual is left to the longer way, with nothing done: so the two
together do what the longer way does alone.
"""

from threading import Lock
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ottla.client.metadata import Metadata
    from ottla.client.producer.batch import PendingBatch
    from ottla.client.producer.delivery import Delivery
    from ottla.client.producer.routes import Route
    from ottla.ports import Clock

_new: Final = object.__new__


class Receipt:
    """Where a record is: its delivery, its number in it, and its timestamp."""

    __slots__ = ("delivery", "index", "timestamp_ms")

    def __init__(self, delivery: "Delivery", index: int, timestamp_ms: int) -> None:
        self.delivery = delivery
        self.index = index
        self.timestamp_ms = timestamp_ms


class Door:
    """Lets records into the open batches of one producer.  Safe from any thread."""

    def __init__(self, lock: Lock, clock: "Clock", metadata: "Metadata") -> None:
        """`lock` is the producer's; the compiled twin can do without."""
        self.routes: dict[str, Route] = {}
        """Topics that may be sent to right now; see `ottla.client.producer.core`."""
        self._lock = lock
        self._clock = clock
        self._metadata = metadata
        self._make: type[Receipt] | None = None

    def open(self, make: type[Receipt]) -> None:
        """Let plain bytes in from now on; each gets a receipt of this kind."""
        if not issubclass(make, Receipt):
            raise TypeError(f"{make.__name__} is not a Receipt")
        self._make = make

    def shut(self) -> None:
        """Let nobody in before there are routes again."""
        self.routes = {}

    def put(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        headers: Any,
        timestamp: Any,
        on_delivery: Any,
    ) -> Any:
        """Put a record into a batch that is open and has memory for it: its receipt.

        None, and nothing done, if the record is not plain, or no such batch is at hand.
        """
        if (
            self._make is None
            or value.__class__ is not bytes
            or partition is not None
            or headers
            or timestamp is not None
            or on_delivery is not None
            or not (key is None or key.__class__ is bytes)
        ):
            return None
        route = self.routes.get(topic)
        if route is None or route.cluster is not self._metadata.cluster:
            return None
        with self._lock:
            batch = _open_batch(route, key)
            if batch is None:
                return None
            timestamp_ms = self._clock.now_ms()
            index = batch.writer.offer(timestamp_ms, key, value)
        if index < 0:
            return None
        made = _new(self._make)  # without the price of calling what subclasses do in __init__
        Receipt.__init__(made, batch.delivery, index, timestamp_ms)
        return made


def _open_batch(route: "Route", key: bytes | None) -> "PendingBatch | None":
    """Where records with this key go now, if that is simple to say."""
    if key is None:
        return None if route.sticky is None else route.sticky.current.open
    if not key or route.key_hash is None:
        return None
    lines = route.lines
    return lines[route.key_hash(key) % len(lines)].open
