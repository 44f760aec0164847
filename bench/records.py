"""The races over record batches: building, reading, and Arrow.

The peers are used as their own clients use them, minus every layer that does not touch the bytes:
no futures, no serializers, no wrapper around the builder.  What is checked on the way is the same
on both sides: whoever reads, verifies the checksum.
"""

from collections.abc import Callable, Iterable
from typing import Any

from bench.harness import Contestant, Race, Twin
from ottla.records.arrow import from_arrow, to_arrow
from ottla.records.batch import batches
from ottla.records.builder import BatchOptions, build
from ottla.records.shapes import Decoded, Unwritten

CODEC = "records"

RECORD_COUNT = 1000
"""In one batch, which then has about 100 KiB."""

BATCH_COUNT = 10
"""In one fetch: 1 MiB, a consumer's default for a partition.  Arrow is made of whole fetches."""

START_MS = 1_700_000_000_000
BIG_BATCH_BYTES = 1 << 20

PLAIN: list[Unwritten] = [
    (START_MS + number, None, b"%0100d" % number, ()) for number in range(RECORD_COUNT)
]
KEYED: list[Unwritten] = [
    (timestamp_ms, b"%08d" % number, value, (("trace", b"%016d" % number), ("source", b"bench")))
    for number, (timestamp_ms, _, value, _) in enumerate(PLAIN)
]

FETCHED = b"".join(
    build(PLAIN, BatchOptions(base_offset=RECORD_COUNT * number)) for number in range(BATCH_COUNT)
)

HEAD_BYTES = 16
"""Base offset, length and leader epoch: a broker sets them, and builders fill in what they like."""


def from_the_magic_on(batch: bytes | bytearray) -> bytes:
    return bytes(batch[HEAD_BYTES:])


def build_with_ottla(records: list[Unwritten]) -> Contestant:
    return Contestant(name="ottla", run=lambda: build(records), answer=from_the_magic_on)


def build_with_aiokafka(records: list[Unwritten]) -> Contestant:
    """Its compiled builder, called by position; its client adds a wrapper with keywords."""
    from aiokafka.record._crecords.default_records import DefaultRecordBatchBuilder

    rows = [(*record[:3], list(record[3] or ())) for record in records]

    def work() -> bytearray:
        builder = DefaultRecordBatchBuilder(
            magic=2,
            compression_type=0,
            is_transactional=0,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            batch_size=BIG_BATCH_BYTES,
        )
        append = builder.append
        for offset, (timestamp_ms, key, value, headers) in enumerate(rows):
            append(offset, timestamp_ms, key, value, headers)
        batch: bytearray = builder.build()
        return batch

    return Contestant(name="aiokafka, compiled", run=work, answer=from_the_magic_on)


def build_with_kafka_python(records: list[Unwritten]) -> Contestant:
    """Its builder with the `crc32c` wheel; its client adds a wrapper and a future per record."""
    from kafka.record.default_records import DefaultRecordBatchBuilder
    from kafka.record.util import crc32c_c

    if crc32c_c is None:
        raise ModuleNotFoundError("kafka-python finds no crc32c wheel", name="crc32c")
    rows = [(*record[:3], list(record[3] or ())) for record in records]

    def work() -> bytearray:
        builder = DefaultRecordBatchBuilder(
            magic=2,
            compression_type=0,
            is_transactional=False,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            batch_size=BIG_BATCH_BYTES,
        )
        append = builder.append
        for offset, (timestamp_ms, key, value, headers) in enumerate(rows):
            append(offset, timestamp_ms, key, value, headers)
        batch: bytearray = builder.build()
        return batch

    return Contestant(name="kafka-python", run=work, answer=from_the_magic_on)


def read_with_ottla(data: bytes) -> Contestant:
    def work() -> list[Decoded]:
        records: list[Decoded] = []
        for batch in batches(data, partial_tail=True):
            batch.check_crc()
            records += batch.record_list()
        return records

    return Contestant(name="ottla, to tuples", run=work, answer=list)


def rows_of_objects(records: Iterable[Any]) -> list[Decoded]:
    return [
        (record.offset, record.timestamp, record.key, record.value, tuple(record.headers))
        for record in records
    ]


def read_with_aiokafka(data: bytes) -> Contestant:
    """Its compiled reader; record objects as they come, no attribute of them is touched."""
    from aiokafka.record._crecords.memory_records import MemoryRecords

    def work() -> list[Any]:
        records: list[Any] = []
        memory = MemoryRecords(data)
        while memory.has_next():
            batch = memory.next_batch()
            assert batch.validate_crc()
            records += batch
        return records

    return Contestant(name="aiokafka, compiled", run=work, answer=rows_of_objects)


def rows_of_table(table: Any) -> list[Decoded]:
    columns = [table.column(name) for name in ("offset", "timestamp", "key", "value", "headers")]
    columns[1] = columns[1].cast("int64")
    return [
        (*fields, tuple((header["key"], header["value"]) for header in headers))
        for *fields, headers in zip(*(column.to_pylist() for column in columns), strict=True)
    ]


def read_to_arrow() -> Contestant:
    def work() -> Any:
        fetched = list(batches(FETCHED, partial_tail=True))
        for batch in fetched:
            batch.check_crc()
        return to_arrow(fetched)

    work()  # raises here, and not amid the race, if pyarrow is not installed
    return Contestant(name="ottla, to Arrow", run=work, answer=rows_of_table)


def build_from_arrow() -> Contestant:
    """All rows of a fetch in one batch; what it gives is compared by reading it again."""
    table = to_arrow(batches(FETCHED, partial_tail=True))

    def answer(batch: bytearray) -> object:
        reader = read_with_ottla(bytes(batch))
        return reader.answer(reader.run())

    return Contestant(
        name="ottla, from Arrow",
        run=lambda: from_arrow(table, timestamp_ms=START_MS),
        answer=answer,
    )


def race(
    title: str,
    twin: Twin,
    target_ratio: float | None,
    contestants: Callable[[], tuple[Contestant, Contestant]],
    record_count: int = RECORD_COUNT,
) -> Race:
    return Race(
        title=title,
        twin=twin,
        item="record",
        items_per_run=record_count,
        target_ratio=target_ratio,
        contestants=contestants,
    )


RACES = [
    race(
        "build a batch of 100 B values",
        "compiled",
        4,
        lambda: (build_with_ottla(PLAIN), build_with_aiokafka(PLAIN)),
    ),
    race(
        "the same with keys and two headers",
        "compiled",
        None,
        lambda: (build_with_ottla(KEYED), build_with_aiokafka(KEYED)),
    ),
    race(
        "read a batch of 100 B values to tuples",
        "compiled",
        2,
        lambda: (read_with_ottla(bytes(build(PLAIN))), read_with_aiokafka(bytes(build(PLAIN)))),
    ),
    race(
        "the same with keys and two headers",
        "compiled",
        None,
        lambda: (read_with_ottla(bytes(build(KEYED))), read_with_aiokafka(bytes(build(KEYED)))),
    ),
    race(
        "read 1 MiB of 100 B values to Arrow, and to tuples",
        "compiled",
        5,
        lambda: (read_to_arrow(), read_with_ottla(FETCHED)),
        RECORD_COUNT * BATCH_COUNT,
    ),
    race(
        "build a batch from 1 MiB of Arrow, and read it to tuples",
        "compiled",
        5,
        lambda: (build_from_arrow(), read_with_ottla(FETCHED)),
        RECORD_COUNT * BATCH_COUNT,
    ),
    race(
        "build a batch of 100 B values, both in pure Python with the crc32c wheel",
        "python",
        3,
        lambda: (build_with_ottla(PLAIN), build_with_kafka_python(PLAIN)),
    ),
]
