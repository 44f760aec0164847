"""Which transactional ids workers use, and which columns are written."""

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from ottla.spark.sink.decisions import Identity, Names
from ottla.spark.sink.rows import RowError, Rows
from ottla.spark.sink.tasks import Job, _Worker

FIRST = Identity("ottla-eos.s", 1, 0)
SECOND = Identity("ottla-eos.s", 1, 2)


def job(of: Identity, sink_id: str = "s") -> Job:
    return Job(client={}, names=Names(sink_id), round=of, may_wait=True)


def test_a_worker_uses_no_id_twice_in_a_round_and_all_of_them_again_in_the_next() -> None:
    worker = _Worker()

    first = [worker.next_id(job(FIRST)) for _ in range(3)]
    second = [worker.next_id(job(SECOND)) for _ in range(3)]

    assert len(set(first)) == 3
    assert second == first


def test_two_workers_have_no_id_in_common_and_neither_have_two_sinks() -> None:
    worker = _Worker()
    ids = [
        worker.next_id(job(FIRST)),
        worker.next_id(job(FIRST, "t")),
        _Worker().next_id(job(FIRST)),
    ]

    assert len(set(ids)) == 3


def schema(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


TEXT, BYTES = StringType(), BinaryType()
HEADERS = ArrayType(schema(key=TEXT, value=BYTES))


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"key": TEXT}, "there is no column value, only key"),
        ({"value": IntegerType()}, "column value is int, and must be string or binary"),
        ({"value": TEXT, "key": LongType()}, "column key is bigint"),
        ({"value": TEXT, "headers": ArrayType(TEXT)}, "column headers is array<string>"),
        ({"value": TEXT, "headers": ArrayType(schema(key=TEXT, value=TEXT))}, "column headers"),
        ({"value": TEXT, "partition": TEXT}, "column partition is string, and must be int"),
        ({"value": TEXT, "topic": BYTES}, "column topic is binary, and must be string"),
    ],
)
def test_columns_that_cannot_be_written_are_named(columns: dict[str, DataType], told: str) -> None:
    with pytest.raises(RowError, match=told):
        Rows(schema(**columns), "t")


def test_every_column_of_a_record_may_be_there_and_others_too() -> None:
    Rows(
        schema(
            key=BYTES, value=TEXT, headers=HEADERS, topic=TEXT, partition=IntegerType(), more=TEXT
        ),
        None,
    )


def test_a_topic_is_needed() -> None:
    with pytest.raises(RowError, match="which topic"):
        Rows(schema(value=BYTES), None)
