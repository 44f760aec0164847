"""Avro values with numbers of a schema registry: what is decoded, and what is said if it cannot."""

import io
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from pyspark.sql.types import StructType

from ottla.errors import SerializationError
from ottla.spark.source.avro import RegistryError
from ottla.testing import TestBroker
from tests.spark.registry import SchemaRegistry, schema_registry
from tests.spark.source_samples import batch_reader, frame, read_all, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST, SECOND, UNKNOWN = 7, 8, 404
SCHEMAS: dict[int, Any] = {
    FIRST: {
        "type": "record",
        "name": "order",
        "fields": [{"name": "id", "type": "long"}, {"name": "drink", "type": "string"}],
    },
    SECOND: {
        "type": "record",
        "name": "order",
        "fields": [
            {"name": "drink", "type": "string"},
            {"name": "id", "type": "long"},
            {"name": "price", "type": ["null", "double"]},
        ],
    },
}
COLUMNS = StructType().add("id", "long").add("drink", "string").add("price", "double")
BROKEN = StructType().add("id", "long").add("_corrupt_record", "binary")


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with schema_registry(SCHEMAS) as registry:
        yield registry


def value(number: int, **fields: Any) -> bytes:
    """An order as a producer with a registry writes it; of an unknown number, by the first."""
    out = io.BytesIO(struct.pack(">bi", 0, number))
    out.seek(0, io.SEEK_END)
    fastavro.schemaless_writer(out, fastavro.parse_schema(SCHEMAS.get(number, SCHEMAS[7])), fields)
    return out.getvalue()


def given(topic: str, registry: SchemaRegistry, **more: str) -> dict[str, str]:
    return {
        "subscribe": topic,
        "valueFormat": "avro",
        "schemaRegistry": registry.url,
        **more,
    }


def test_spark_reads_values_of_several_schemas_as_columns(
    spark: "SparkSession", broker: TestBroker, topic: str, registry: SchemaRegistry
) -> None:
    broker.create_topic(topic)
    broker.produce(topic, value(FIRST, id=1, drink="lungo"), None)
    broker.produce(topic, value(SECOND, id=2, drink="ristretto", price=2.5))

    columns = "id long, drink string, price double, _offset long"
    rows = frame(spark, broker, schema=columns, **given(topic, registry)).orderBy("_offset")

    assert [tuple(row) for row in rows.collect()] == [
        (1, "lungo", None, 0),
        (None, None, None, 1),
        (2, "ristretto", 2.5, 2),
    ]


def test_the_registry_is_asked_once_for_each_number(
    broker: TestBroker, topic: str, registry: SchemaRegistry
) -> None:
    broker.create_topic(topic)
    for number in (FIRST, SECOND, FIRST, UNKNOWN, UNKNOWN, FIRST, UNKNOWN):
        broker.produce(topic, value(number, id=number, drink="x", price=None))
    asked = [f"/schemas/ids/{number}" for number in (FIRST, SECOND, UNKNOWN)]

    read_all(batch_reader(broker, COLUMNS, **given(topic, registry)))

    assert sorted(registry.asked) == sorted(asked)


def test_a_value_whose_schema_nobody_knows_is_broken_and_its_neighbors_are_not(
    broker: TestBroker, topic: str, registry: SchemaRegistry
) -> None:
    broker.create_topic(topic)
    unknown, good = value(UNKNOWN, id=1, drink="x"), value(FIRST, id=2, drink="x")
    broker.produce(topic, unknown, good, b"{}")

    rows = rows_of(read_all(batch_reader(broker, BROKEN, **given(topic, registry))))

    assert rows == [
        {"id": None, "_corrupt_record": unknown},
        {"id": 2, "_corrupt_record": None},
        {"id": None, "_corrupt_record": b"{}"},
    ]


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (value(UNKNOWN, id=1, drink="x"), f"the registry has no schema {UNKNOWN}"),
        (b"plain text", "does not begin with the number of a schema"),
        (value(FIRST, id=1, drink="x") + b"more", "bytes are left after the value"),
    ],
)
def test_failfast_says_why_a_value_cannot_be_decoded(
    broker: TestBroker, topic: str, registry: SchemaRegistry, broken: bytes, why: str
) -> None:
    broker.create_topic(topic)
    broker.produce(topic, value(FIRST, id=0, drink="x"), broken)
    reader = batch_reader(broker, COLUMNS, **given(topic, registry, mode="FAILFAST"))

    with pytest.raises(SerializationError, match=rf"offset 1 of {topic}-0 is not avro.*{why}"):
        read_all(reader)


def test_trouble_of_the_registry_fails_the_task_and_is_no_fault_of_values(
    broker: TestBroker, topic: str, registry: SchemaRegistry
) -> None:
    broker.create_topic(topic)
    broker.produce(topic, value(FIRST, id=1, drink="x"))
    reader = batch_reader(broker, BROKEN, **given(topic, registry))
    registry.is_broken = True

    with pytest.raises(RegistryError, match=r"ids/7: .*backend data store.*must be reachable"):
        read_all(reader)

    registry.is_broken = False
    assert [row["id"] for row in rows_of(read_all(reader))] == [1]


def test_a_registry_that_nobody_runs_is_named(
    broker: TestBroker, topic: str, registry: SchemaRegistry
) -> None:
    broker.create_topic(topic)
    broker.produce(topic, value(FIRST, id=1, drink="x"))
    nowhere = given(topic, registry, schemaRegistry="http://127.0.0.1:9")

    with pytest.raises(RegistryError, match=r"http://127\.0\.0\.1:9/schemas/ids/7.*refused"):
        read_all(batch_reader(broker, COLUMNS, **nowhere))
