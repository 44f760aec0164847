"""What consumers hand out: records, batches and the offsets that they stand for."""

import pickle
from datetime import UTC, datetime
from typing import Any

import pytest

from ottla.client.headers import Headers
from ottla.client.records import (
    Batch,
    OffsetAndMetadata,
    Record,
    Serdes,
    Span,
    offsets_of,
)
from ottla.client.serdes import JSON, UTF8
from ottla.errors import SerializationError
from ottla.model import TopicPartition
from ottla.records.batch import Batch as LoggedBatch
from ottla.records.batch import TimestampType
from ottla.records.builder import build
from tests.consumer_samples import OTHER, TP, chunk, record_at


def portion(tp: TopicPartition, *rows: tuple[int, bytes | None]) -> list[Record[Any, Any]]:
    return [record_at(tp, offset, value, 1_500, leader_epoch=3) for offset, value in rows]


def batch(*portions: list[Record[Any, Any]], **options: Any) -> Batch[Any, Any]:
    spans = {p[0].tp: Span(p[0].offset - 1, p[-1].offset + 2, 3) for p in portions}
    return Batch([each for p in portions for each in p], spans, **options)


def test_a_record_knows_its_place_and_time() -> None:
    (record,) = batch(portion(TP, (7, b"x")))
    assert record == Record(
        "orders", 0, 7, None, b"x", Headers(), 1_500, TimestampType.CREATE_TIME, 3
    )
    assert (record.tp, record.next_offset) == (TP, 8)
    assert record.timestamp == datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)
    assert pickle.loads(pickle.dumps(record)) == record


def test_a_record_cannot_be_changed() -> None:
    (record,) = batch(portion(TP, (7, b"x")))
    with pytest.raises(AttributeError):
        record.value = b"y"  # type: ignore[misc]


def test_headers_keep_their_order_and_repetitions() -> None:
    written = LoggedBatch.parse(build([(0, None, None, (("a", b"1"), ("a", b"2")))]))
    (read,) = chunk(0, [written]).take(1) or []
    assert list(read.headers) == [("a", b"1"), ("a", b"2")]
    assert read.headers.get("a") == b"2"


def test_a_batch_is_a_sequence_of_all_its_partitions() -> None:
    both = batch(portion(TP, (0, b"a"), (1, b"b")), portion(OTHER, (9, b"z")))
    assert len(both) == 3
    assert [record.value for record in both] == [b"a", b"b", b"z"]
    assert both[-1].tp == OTHER
    assert [record.offset for record in both[:2]] == [0, 1]
    assert {tp: len(records) for tp, records in both.partitions.items()} == {TP: 2, OTHER: 1}


def test_a_batch_without_records_is_false() -> None:
    assert not Batch()
    assert batch(portion(TP, (0, None)))


def test_serdes_read_keys_and_values_when_they_are_looked_at() -> None:
    read = batch(portion(TP, (0, b'{"id": 1}')), serdes=Serdes(UTF8, JSON))
    assert read[0].value == {"id": 1}
    assert read.raw[0].value == b'{"id": 1}'


def test_an_iterator_goes_on_behind_a_record_that_cannot_be_read() -> None:
    records = iter(batch(portion(TP, (0, b"1"), (1, b"?"), (2, b"3")), serdes=Serdes(value=JSON)))
    assert next(records).value == 1
    with pytest.raises(SerializationError, match="offset 1 of orders-0") as caught:
        next(records)
    assert caught.value.record.value == b"?"
    assert next(records).value == 3


def test_what_is_committed_is_where_reading_goes_on() -> None:
    made = batch(portion(TP, (5, b"a")), portion(OTHER, (8, b"b")))
    assert offsets_of(made[0]) == {TP: OffsetAndMetadata(6, "", 3)}
    assert offsets_of(made) == {
        TP: OffsetAndMetadata(7, "", 3),
        OTHER: OffsetAndMetadata(10, "", 3),
    }
    assert made.start_offsets == {TP: 4, OTHER: 7}
    assert made.next_offsets == {TP: 7, OTHER: 10}
    assert offsets_of({TP: 4}) == {TP: OffsetAndMetadata(4)}
    noted = OffsetAndMetadata(4, "noted")
    assert offsets_of({TP: noted}) == {TP: noted}


@pytest.mark.parametrize(
    ("what", "error"), [([1], TypeError), ({TP: "4"}, TypeError), ({TP: -1}, ValueError)]
)
def test_what_is_no_offset_is_refused(what: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        offsets_of(what)
