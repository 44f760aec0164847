"""`ottla.Consumer`: reads records, alone or as a member of a group, for programs that block."""

from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Self, TypeVar

from ottla.client.consumer.drive import drive
from ottla.client.consumer.face import Face
from ottla.client.consumer.plugs import RebalanceListener
from ottla.client.records import (
    Batch,
    Commitable,
    OffsetAndMetadata,
    Offsets,
    Record,
    as_partitions,
    offsets_of,
)
from ottla.client.serdes import K, V
from ottla.model import TopicPartition

if TYPE_CHECKING:
    from concurrent.futures import Future

    import pyarrow as pa

    from ottla.client.consumer.reading import Place


P = ParamSpec("P")
T = TypeVar("T")


class Consumer(Face[K, V]):
    """Reads records.

        with ottla.Consumer("orders", group_id="billing") as consumer:
            for record in consumer:
                print(record.key, record.value)

    A record counts as processed when the next one is asked for, or when the `with` block is left
    without an error; commits happen by themselves, and never include a record whose processing
    raised.  `enable_auto_commit=False` leaves them to `commit`.

    Constructing does no I/O; entering the `with` block connects, or else the first call does.  A
    consumer serves one thread at a time.  Only `stop` may be called from others, and from signal
    handlers.
    """

    _is_async = False
    _records: Iterator[Record[K, V]] | None = None

    # Reading.

    def __iter__(self) -> Iterator[Record[K, V]]:
        """Records, one after the other, until `stop`."""
        return self._each()

    def __next__(self) -> Record[K, V]:
        """The next record; waits for it as long as it takes."""
        if self._records is None:
            self._records = self._each()
        try:
            # No next(): an interrupt may strike as it returns, and the record would be lost.
            for record in self._records:
                return record
        except BaseException:
            self._records = None  # what raised is over; the next call goes on behind it
            raise
        self._records = None
        raise StopIteration

    def _each(self) -> Iterator[Record[K, V]]:
        self._begin()
        reading = self._reading
        while (cursor := drive(reading.next_cursor())) is not None:
            read = cursor.read
            for record in cursor.rest:
                cursor.given_count += 1
                try:
                    given = record if read is None else read(record)
                except Exception:
                    raise  # it cannot be read: the next call goes on behind it
                except BaseException:  # an interrupt: nobody has seen it
                    cursor.given_count -= 1
                    reading.put_back(lambda tp: True)
                    raise
                yield given
                if reading.is_stopped:
                    reading.put_back(lambda tp: True)

    def poll(self, timeout: float = 1.0, *, max_records: int | None = None) -> Batch[K, V]:
        """Records, as soon as there are some; an empty batch if there are none in `timeout` s.

        Args:
            timeout: How long to wait for records, in seconds.
            max_records: How many records to return at most; by default `max_poll_records`.

        Raises:
            OttlaError: What the group, a partition's offset or a damaged batch gives cause to.
        """
        self._begin()
        return drive(self._reading.poll(timeout, max_records))

    def batches(
        self, timeout: float = 1.0, *, max_records: int | None = None, idle: bool = False
    ) -> Iterator[Batch[K, V]]:
        """What `poll` returns, again and again, until `stop`; empty batches only if `idle`."""
        while not self._reading.is_stopped:
            batch = self.poll(timeout, max_records=max_records)
            if batch or (idle and not self._reading.is_stopped):
                yield batch

    def poll_arrow(
        self,
        timeout: float = 1.0,
        *,
        max_records: int | None = None,
        schema: "pa.Schema | None" = None,
    ) -> "pa.RecordBatch | None":
        """As `poll`, as one Arrow batch; None if there are no records in `timeout` seconds.

        Its columns are topic, partition, offset, timestamp, key, headers and value.  With a
        `schema`, values are JSON objects, and the fields of the schema take the place of value.

        Raises:
            ModuleNotFoundError: `pip install 'ottla[arrow]'` is missing.
        """
        self._begin()
        return drive(self._reading.poll_arrow(timeout, max_records, schema))

    # What to read.

    def subscribe(
        self,
        topics: Collection[str] | str,
        *,
        pattern: bool = False,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read these topics, in place of others; with `pattern`, all whose whole name matches."""
        from ottla.client.consumer.subscription import subscription_of

        chosen = subscription_of(topics, is_pattern=pattern)
        self._forget_wish()
        drive(self._reading.subscribe(chosen, listener))

    def unsubscribe(self) -> None:
        """Read nothing any more, and leave the group."""
        self._forget_wish()
        drive(self._reading.unsubscribe())

    def assign(self, partitions: Collection[TopicPartition] | Offsets) -> None:
        """Read exactly these partitions, without sharing: from given offsets, or committed ones."""
        from ottla.client.consumer.reading import places_of

        self._forget_wish()
        drive(self._reading.assign(places_of(partitions)))

    # Offsets.

    def commit(self, what: "Commitable | None" = None, *, timeout: float | None = None) -> None:
        """Commit a record, a batch, an Arrow batch or offsets; by default, all that was handed out.

        Raises:
            CommitFailedError: The group has given the partitions to another member.
            RejoinError: The group is being shared out anew: poll, then commit again.
        """
        self._begin()
        drive(self._reading.commit(None if what is None else offsets_of(what), timeout))

    def commit_async(self, what: "Commitable | None" = None) -> "Future[None]":
        """As `commit`, without waiting; futures are done in the order of calls.

        Their callbacks run on the client's I/O thread.
        """
        self._begin()
        reading = self._reading
        offsets = reading.progress.handed_out() if what is None else offsets_of(what)
        return self._driver.start(self._inquiries.commit(offsets))

    def committed(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed; by default for what is assigned."""
        return self._ask(self._inquiries.committed, partitions)

    def position(self, tp: TopicPartition, timeout: float = 60.0) -> int:
        """The offset of the next record of a partition."""
        self._begin()
        return drive(self._reading.position(TopicPartition(*tp), timeout))

    def seek(
        self, tp: TopicPartition, offset: int | datetime | Literal["beginning", "end", "committed"]
    ) -> None:
        """Go elsewhere in an assigned partition: an offset, a moment, or one of three places."""
        self._reading.seek({TopicPartition(*tp): offset})

    def seek_all(
        self, offset: datetime | timedelta | Literal["beginning", "end", "committed"]
    ) -> None:
        """As `seek`, in all assigned partitions; a `timedelta` is so long ago."""
        place: Place = offset
        self._reading.seek(dict.fromkeys(self.assignment, place))

    def rewind(self, batch: Batch[Any, Any]) -> None:
        """Go back to where a batch began, in those of its partitions that are still assigned."""
        self._reading.rewind(batch)

    def beginning_offsets(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        return self._ask(self._inquiries.beginning_offsets, partitions)

    def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset after the last record of each partition that this consumer may see."""
        return self._ask(self._inquiries.end_offsets, partitions)

    def offsets_for_times(
        self, times: Mapping[TopicPartition, datetime | int]
    ) -> dict[TopicPartition, int | None]:
        """The first offset from a moment on (or milliseconds since 1970); None if there is none."""
        return self._ask(self._inquiries.offsets_for_times, times)

    def lag(self) -> dict[TopicPartition, int]:
        """How many offsets each partition is behind its end, of those whose position is known."""
        return self._ask(self._inquiries.lag, self._reading.progress.handed_out())

    # Flow.

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out nothing of these partitions until `resume`; the membership stays alive."""
        self._reading.pause(as_partitions(partitions), is_paused=True)

    def resume(self, *partitions: TopicPartition) -> None:
        """Hand out records of these partitions again."""
        self._reading.pause(as_partitions(partitions), is_paused=False)

    # Its life.

    def connect(self, timeout: float | None = None, *, once: bool = False) -> None:
        """Reach a broker now; without, `with` or the first call does.

        Args:
            timeout: For how many seconds to try; by default `default_api_timeout_ms`.
            once: Try each address once, and not again and again.

        Raises:
            ConnectError: No broker can be reached; it says why.
            DeadlineError: Somebody is there, but does not answer in time.
        """
        self._driver.run_blocking(self._reading.core.connect(timeout, once=once))

    def close(self, timeout: float | None = None) -> None:
        """Commit what is processed, leave the group, and close all connections.

        What was handed out last does not count as processed: nobody asked for more after it.
        Raises what went wrong with that commit, after everything is closed.
        """
        drive(self._end(is_clean=False, timeout_s=timeout))

    def __enter__(self) -> Self:
        try:
            self.connect()
            self._begin()
        except BaseException as error:
            drive(self._leave(error))  # nobody else will
            raise
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        drive(self._leave(error))

    def _ask(
        self, ask: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        self._begin()
        with self._reading.entered():
            return self._driver.run_blocking(ask(*args, **kwargs))

    def _begin(self) -> None:
        """Carry out what the constructor was told."""
        if (subscription := self._wish.subscription) is not None:
            self._forget_wish()
            drive(self._reading.subscribe(subscription, None))
