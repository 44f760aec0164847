"""Rows of Arrow tables to batches, sorted by partition, without a Python object for each.

Rows go to partitions as records do: by the hash of their key, else in slices that stay together.
Where a function of the user's decides, it is called for each row.  Batches are as large as a
request and the buffer allow, and get their numbers when they leave.  Many of one partition are
built by the I/O thread, see `workshop`; few of them, or compressed ones, by the caller's.
"""

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from threading import Condition, Lock
from typing import TYPE_CHECKING, Any, Final

from ottla.client.producer.batch import PendingBatch
from ottla.client.producer.core import Core
from ottla.client.producer.delivery import NO_OFFSET, Delivery
from ottla.client.producer.lines import Line
from ottla.client.producer.outgoing import SendingRows
from ottla.client.producer.partitioners import murmur2
from ottla.client.producer.pieces import Bounds, piece_ranges, pieces
from ottla.client.producer.pump import batch_options
from ottla.client.producer.routes import Route
from ottla.client.producer.workshop import Order
from ottla.errors import DeliveryError, OttlaError
from ottla.records.arrow import (
    COLUMN_NAMES,
    cut,
    murmur2_of,
    pyarrow,
    unwritten_columns,
    whole_columns,
    with_plain_headers,
)
from ottla.records.builder import build_unsealed
from ottla.records.compression import Compression
from ottla.records.shapes import BATCH_HEADER_BYTES, UnwrittenColumns

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

_Put = Callable[[Line, bytearray, int, int], PendingBatch]

_FORMATS: Final = ("bytes", "json", "arrow")
_POSITIVE: Final = 0x7FFF_FFFF
_BUILT_AHEAD: Final = 10
"""How many batches of one call wait or are in flight: enough for the network to be busy, and few
enough for their memory to be used again while it is still in the processor's cache."""

_LONG_ORDER: Final = 4
"""How many batches there are at least if the I/O thread builds them, see `workshop`.  With fewer, a
caller that goes on to the next rows while they are sent is faster."""

_RESUMED_AT: Final = 7
"""With fewer of them than that, a caller who waits goes on.  It then has several to build, and is
woken once for all of them: two threads that wake each other in turns take some 30 µs each time."""


def send_arrow(
    core: Core,
    route: Route,
    data: "pa.RecordBatch | pa.Table",
    *,
    key: str | None,
    value: str | Sequence[str] | None,
    value_format: str,
    partition: str | None = None,
) -> "Future[Mapping[int, range]]":
    """Put the rows into batches, and those into lines; see `Producer.send_arrow`."""
    rows = _as_records(data, key, value, value_format)
    wanted = None if partition is None else _partitions(core, route, data, partition, value_format)
    sending = SendingRows(route.topic, rows)
    if core.config.interceptors:
        rows = _intercepted(core.config.interceptors, sending)
    sent = Sent(sending.listeners)
    try:
        _put(core, route, rows, wanted, sent)
    except Exception as error:
        sent.tell(error)  # the future is nobody's
        raise
    sent.complete()
    return sent.future


def _intercepted(interceptors: Sequence[Any], sending: SendingRows) -> Any:
    """What interceptors make of the rows."""
    for interceptor in interceptors:
        before = sending.rows
        try:
            getattr(interceptor, "on_send_arrow", _ignore)(sending)
            if sending.rows.num_rows != before.num_rows:
                raise ValueError(f"{sending.rows.num_rows} rows in the place of {before.num_rows}")
        except Exception:
            sending.rows = before
            log.exception("interceptor failed: %s.on_send_arrow", type(interceptor).__name__)
    return sending.rows


def _ignore(sending: SendingRows) -> None:
    """For an interceptor that is not interested."""


def _put(core: Core, route: Route, rows: Any, wanted: Any, sent: "Sent") -> None:
    """Put batches of the rows into lines."""
    rows = with_plain_headers(rows)
    builder = _Builder(core, sent)
    if rows.num_rows:
        for line, part in _by_wish(route, rows, wanted, builder.limit_bytes, core):
            builder.put(line, part)


class _Builder:
    """Makes batches of the rows of one call."""

    def __init__(self, core: Core, sent: "Sent") -> None:
        self._core = core
        self._sent = sent
        self._now_ms = core.clock.now_ms()
        self._options = batch_options(core.config)
        self._may_wait = not core.pump.is_running_here
        # What nobody acknowledges leaves at once: the thread would build, and do nothing else.
        is_acknowledged = core.config.acks != 0
        self._is_quick = is_acknowledged and self._options.compression is Compression.NONE
        most_bytes = min(core.config.max_request_size, core.config.buffer_memory)
        self.limit_bytes = most_bytes - BATCH_HEADER_BYTES

    def put(self, line: Line, rows: Any) -> None:
        """Put rows into a line, in as many batches as they need."""
        unwritten, is_long = self._unwritten(rows)
        if is_long and self._is_quick and self._may_wait:
            self._core.check_usable()  # an interceptor, or a partitioner, may have forked
            order = Order(self._built_there(line, unwritten), self.limit_bytes)
            self._core.workshop.carry_out(order, self._core.pump.wake)
        for columns in unwritten:  # or what is left of them
            if self._may_wait:
                self._sent.wait_for_room()
            self._build(line, columns, self._core.intake.put_built)

    def _unwritten(self, rows: Any) -> "tuple[Iterator[UnwrittenColumns], bool]":
        """What each batch of the rows is built of, and whether there are many of them."""
        whole = whole_columns(rows, timestamp_ms=self._now_ms)
        if whole is None:
            found = pieces(rows, self.limit_bytes)
            return (unwritten_columns(piece, timestamp_ms=self._now_ms) for piece in found), False
        # To cut columns that are open takes a fraction of opening those of a slice.
        ranges = list(piece_ranges(rows, self.limit_bytes))
        return (cut(whole, start, count) for start, count in ranges), len(ranges) >= _LONG_ORDER

    def _built_there(
        self, line: Line, unwritten: "Iterator[UnwrittenColumns]"
    ) -> Iterator[PendingBatch]:
        """Builds a batch on the I/O thread each time it is asked."""
        for columns in unwritten:
            yield self._build(line, columns, self._core.intake.add_built)

    def _build(self, line: Line, columns: UnwrittenColumns, put: "_Put") -> PendingBatch:
        with self._core.lock:
            into = self._core.lines.spares.take()
        built, body_crc = build_unsealed(columns, self._options, into)
        self._sent.expect()
        batch = put(line, built, columns.record_count, body_crc)
        batch.delivery.listen(self._sent.settled)
        return batch


class _TableFuture(Future[Mapping[int, range]]):
    """The future of a table; who asks it, or has it call back, has looked at what failed."""

    def __init__(self, see: Callable[[], None]) -> None:
        super().__init__()
        self._see = see

    def result(self, timeout: float | None = None) -> Mapping[int, range]:
        """Wait for all rows to be written, and return where."""
        self.exception(timeout)
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for what becomes of the rows, and return why some were not written, if so."""
        error = super().exception(timeout)
        self._see()
        return error

    def add_done_callback(self, fn: "Callable[[Future[Mapping[int, range]]], object]") -> None:
        """Have `fn` called, on the I/O thread; what it is told counts as looked at."""
        self._see()
        super().add_done_callback(fn)


class Sent:
    """What becomes of all batches of one call."""

    def __init__(self, listeners: Sequence[Callable[[Exception | None], None]] = ()) -> None:
        self._listeners = listeners
        self.future: Future[Mapping[int, range]] = _TableFuture(self._see)
        self.future.set_running_or_notify_cancel()
        self._failed: list[Delivery] = []
        self._is_seen = False
        self._lock = Lock()
        self._room = Condition(self._lock)
        self._is_waited_for = False
        self._left_count = 1
        self._ranges: dict[int, tuple[int, int]] = {}
        self._error: OttlaError | None = None

    def wait_for_room(self) -> None:
        """Wait until few batches are on their way; each is settled in delivery.timeout.ms."""
        if self._left_count <= _BUILT_AHEAD:
            return  # nobody but who asks makes it more
        with self._room:
            self._is_waited_for = True
            self._room.wait_for(lambda: self._left_count <= _RESUMED_AT)
            self._is_waited_for = False

    def expect(self) -> None:
        with self._lock:
            self._left_count += 1

    def settled(self, delivery: Delivery) -> None:
        with self._lock:
            if delivery.error is not None:
                self._failed.append(delivery)
                if self._is_seen:
                    delivery.see_all()
            for told in delivery.outcomes:
                if told.error is not None:
                    error = DeliveryError(delivery.topic, delivery.partition, told.error)
                    self._error = self._error or error
                elif told.base_offset != NO_OFFSET:
                    self._cover(delivery.partition, told.base_offset, told.record_count)
            is_last = self._counts_down()
        if is_last:
            self._finish()

    def complete(self) -> None:
        """One thing less to wait for."""
        with self._lock:
            is_last = self._counts_down()
        if is_last:
            self._finish()

    def _counts_down(self) -> bool:
        """One thing less; whether it was the last one."""
        self._left_count -= 1
        if self._is_waited_for and self._left_count <= _RESUMED_AT:
            self._room.notify()
        return not self._left_count

    def _finish(self) -> None:
        self.tell(self._error)
        if self._error is not None:
            self.future.set_exception(self._error)
        else:
            self.future.set_result({p: range(*ends) for p, ends in sorted(self._ranges.items())})

    def tell(self, error: Exception | None) -> None:
        """Tell interceptors what became of the rows."""
        for listener in self._listeners:
            try:
                listener(error)
            except Exception:
                log.exception("interceptor failed when rows were answered")

    def _see(self) -> None:
        """Somebody is told what failed: `flush` need not."""
        with self._lock:
            self._is_seen = True
            for delivery in self._failed:
                delivery.see_all()

    def _cover(self, partition: int, first: int, count: int) -> None:
        start, stop = self._ranges.get(partition, (first, first + count))
        self._ranges[partition] = (min(start, first), max(stop, first + count))


def _as_records(
    data: Any, key: str | None, value: str | Sequence[str] | None, value_format: str
) -> Any:
    """The rows with the columns that `from_arrow` wants."""
    pa = pyarrow()
    if value_format not in _FORMATS:
        raise ValueError(f"value_format = {value_format!r} is not one of {', '.join(_FORMATS)}")
    if not isinstance(data, pa.RecordBatch | pa.Table):
        raise TypeError(f"data must be a RecordBatch or a Table, not {type(data).__name__}")
    if value_format == "bytes":
        return _plain(pa, data, key, value)
    names = [value] if isinstance(value, str) else list(value or data.column_names)
    chosen = data.select(names)
    if value_format == "arrow":
        if key is not None:
            raise ValueError("value_format = 'arrow' makes one record of many rows: it has no key")
        return pa.table({"value": pa.array([_stream(pa, chosen)], pa.binary())})
    encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode
    texts = pa.array([encode(row) for row in chosen.to_pylist()], pa.string())
    columns = {"value": texts}
    if key is not None:
        columns = {"key": _column(pa, data, key), **columns}
    return pa.table(columns)


def _plain(pa: Any, data: Any, key: str | None, value: str | Sequence[str] | None) -> Any:
    if key is None and value is None:
        wanted = [name for name in data.column_names if name in COLUMN_NAMES]
        if "value" not in wanted and "key" not in wanted:
            raise ValueError(
                f"of the columns {', '.join(data.column_names)} none is called key or value; "
                "say which to take with key= and value="
            )
        return data.select([name for name in wanted if name != "offset"])
    if value is not None and not isinstance(value, str):
        if len(value) != 1:
            raise ValueError("several columns as one value need value_format = 'json' or 'arrow'")
        value = value[0]
    columns = {"key": key, "value": value}
    found = {to: _column(pa, data, name) for to, name in columns.items() if name is not None}
    return pa.table(found)


def _column_of(data: Any, name: str) -> Any:
    if name not in data.column_names:
        raise ValueError(f"there is no column {name!r}; there are {', '.join(data.column_names)}")
    return data.column(name)


def _column(pa: Any, data: Any, name: str) -> Any:
    column = _column_of(data, name)
    kind = pa.types
    if kind.is_integer(column.type) or kind.is_boolean(column.type):
        # As text, which is how most programs would have written them.
        column = column.cast(pa.string())
    return column


def _stream(pa: Any, rows: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)
    return bytes(sink.getvalue())


def _partitions(core: Core, route: Route, data: Any, name: str, value_format: str) -> Any:
    """The column that says where each row goes, checked."""
    pa = pyarrow()
    from pyarrow import compute

    if value_format == "arrow":
        raise ValueError("value_format = 'arrow' makes one record of many rows: no partition each")
    column = _column_of(data, name)
    if not pa.types.is_integer(column.type):
        raise TypeError(f"column {name!r} has partitions, so integers, and not {column.type}")
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    ends = compute.min_max(column).as_py()
    if ends["max"] is not None and ends["max"] >= route.partition_count:
        route = core.route(route.topic, ends["max"])  # it may have grown
    if ends["min"] is not None and (ends["min"] < 0 or ends["max"] >= route.partition_count):
        strange = ends["min"] if ends["min"] < 0 else ends["max"]
        raise ValueError(
            f"column {name!r} has {strange}, and topic {route.topic!r} has partitions 0 to "
            f"{route.partition_count - 1}"
        )
    return column.cast(pa.int32())


def _by_wish(
    route: Route, rows: Any, wanted: Any, limit_bytes: int, core: Core
) -> "Iterator[tuple[Line, Any]]":
    """The rows that say where they want to go, and then the others."""
    if wanted is None:
        yield from _by_line(route, rows, limit_bytes, core)
        return
    if wanted.null_count < len(wanted):
        chosen = wanted.is_valid()
        yield from _taken(route, rows.filter(chosen), wanted.drop_null())
    if wanted.null_count:
        yield from _by_line(route, rows.filter(wanted.is_null()), limit_bytes, core)


def _by_line(route: Route, rows: Any, limit_bytes: int, core: Core) -> "Iterator[tuple[Line, Any]]":
    """The rows, sorted by where they go; in their order, for each partition."""
    key = rows.column("key") if "key" in rows.column_names else None
    if route.partition_count == 1 and route.sticky is not None:
        yield route.lines[0], rows
    elif route.sticky is None:
        yield from _by_choice(route, rows)
    elif key is None or route.key_hash is None or key.null_count == len(key):
        if Bounds(rows, limit_bytes).of(0, rows.num_rows) < limit_bytes * route.partition_count:
            limit_bytes = min(limit_bytes, core.config.batch_size)  # so that all get their share
        for piece in pieces(rows, limit_bytes):
            with core.lock:
                line = route.sticky.another()
            yield line, piece
    else:
        yield from _by_key(route, rows, key, core)


def _by_key(route: Route, rows: Any, key: Any, core: Core) -> "Iterator[tuple[Line, Any]]":
    pa = pyarrow()
    from pyarrow import compute

    count = route.partition_count
    if route.key_hash is murmur2:
        array = key.combine_chunks() if isinstance(key, pa.ChunkedArray) else key
        hashes = compute.bit_wise_and(murmur2_of(array), pa.scalar(_POSITIVE, pa.int32()))
        scalar = pa.scalar(count, pa.int32())
        quotient = compute.divide(hashes, scalar)
        chosen = compute.subtract(hashes, compute.multiply(quotient, scalar))
    else:
        assert route.key_hash is not None
        hashed = route.key_hash
        keys = [item if item is None else _bytes(item) for item in key.to_pylist()]
        chosen = pa.array([None if k is None else hashed(k) % count for k in keys], pa.int32())
    if chosen.null_count:
        assert route.sticky is not None
        with core.lock:
            home = route.sticky.another()
        chosen = chosen.fill_null(home.partition)
    yield from _taken(route, rows, chosen)


def _by_choice(route: Route, rows: Any) -> "Iterator[tuple[Line, Any]]":
    """A function of the user's, or the turn, decides about each row."""
    pa = pyarrow()
    nothing = [None] * rows.num_rows
    keys = rows.column("key").to_pylist() if "key" in rows.column_names else nothing
    values = rows.column("value").to_pylist() if "value" in rows.column_names else nothing
    chosen = [
        route.line_for(_bytes(key), _bytes(value), 0).partition
        for key, value in zip(keys, values, strict=True)
    ]
    yield from _taken(route, rows, pa.array(chosen, pa.int32()))


def _taken(route: Route, rows: Any, chosen: Any) -> "Iterator[tuple[Line, Any]]":
    """The rows of each partition: one sort for all of them."""
    from pyarrow import compute

    order = compute.sort_indices(chosen)
    ordered = rows.take(order)
    counts = {c["values"].as_py(): c["counts"].as_py() for c in compute.value_counts(chosen)}
    start = 0
    for partition in sorted(counts):
        yield route.lines[partition], ordered.slice(start, counts[partition])
        start += counts[partition]


def _bytes(item: Any) -> bytes | None:
    return item.encode() if isinstance(item, str) else item
