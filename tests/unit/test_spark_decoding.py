"""Values of records as columns: what is decoded, and what is found to be broken."""

import io
import json
from datetime import UTC, date, datetime
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructType

from ottla.errors import ConfigError
from ottla.spark.source.avro import avro_records, spark_schema
from ottla.spark.source.columns import default_schema, layout_of
from ottla.spark.source.decoding import (
    Decoded,
    Decoder,
    csv_rows,
    decoded,
    decoder_of,
    json_objects,
)
from tests.spark_samples import options

JSON = Decoder(json_objects)
CSV = Decoder(csv_rows(",", '"', ""))
ORDER = pa.struct([("id", pa.int64()), ("name", pa.string())])
AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "name", "type": ["null", "string"]},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "tags", "type": {"type": "array", "items": "string"}},
        ],
    }
)


def values(*found: bytes | None) -> pa.BinaryArray:
    return pa.array(found, pa.binary())


def broken(result: Decoded) -> list[int]:
    flags = [] if result.is_broken is None else result.is_broken.to_pylist()
    return [position for position, is_broken in enumerate(flags) if is_broken]


def test_fields_of_json_objects_become_columns() -> None:
    result = decoded(values(b'{"id": 1, "name": "a", "more": [1]}', b'{"id": 2}'), ORDER, JSON)

    assert result.fields.to_pylist() == [{"id": 1, "name": "a"}, {"id": 2, "name": None}]
    assert result.is_broken is None


def test_a_null_value_has_null_fields_and_is_not_broken() -> None:
    result = decoded(values(b'{"id": 1}', None, b'{"id": 3}'), ORDER, JSON)

    assert [row and row["id"] for row in result.fields.to_pylist()] == [1, None, 3]
    assert broken(result) == []


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"5",
        b"null",
        b"[1]",
        b'{"id": ',
        b'{"id": 1}}',
        b'{"id": 1} {"id": 2}',
        b'{"id": 1}\n{"id": 2}',
        b'{"id": "one"}',
        b'{"id": 1.5}',
        b'{"name": 7}',
        b'}, {"v": {"id": 1}',
        b'{"id": 1}}\n{"v":{"id": 2}',
        b"\xff\xfe",
    ],
)
def test_a_broken_value_keeps_its_place_and_harms_no_neighbor(bad: bytes) -> None:
    around = [b'{"id": %d}' % n for n in range(5)]
    result = decoded(values(*around[:2], bad, *around[2:]), ORDER, JSON)

    assert broken(result) == [2]
    assert [row and row["id"] for row in result.fields.to_pylist()] == [0, 1, None, 2, 3, 4]


def test_two_halves_that_would_make_a_whole_are_both_broken() -> None:
    result = decoded(values(b'{"id": 1, "name":', b'"a"}', b'{"id": 3}{"id": 4}'), ORDER, JSON)

    assert broken(result) == [0, 1, 2]


def test_values_that_are_all_broken_are_all_told() -> None:
    result = decoded(values(*[b"no"] * 40), ORDER, JSON)

    assert broken(result) == list(range(40))
    assert result.fields.null_count == 40


def test_json_has_times_dates_lists_and_objects() -> None:
    wanted = pa.struct(
        [
            ("at", pa.timestamp("us", tz="UTC")),
            ("day", pa.date32()),
            ("days", pa.list_(pa.struct([("day", pa.date32())]))),
            ("price", pa.decimal128(10, 2)),
        ]
    )
    told = {
        "at": "2026-01-02T03:04:05.678Z",
        "day": "2026-01-02",
        "days": [{"day": "2026-01-03"}, {"day": None}],
        "price": 1.25,
    }
    found = decoded(values(json.dumps(told).encode(), b'{"days": null}'), wanted, JSON)

    first = found.fields.to_pylist()[0]
    assert first["at"] == datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
    assert first["day"] == date(2026, 1, 2)
    assert first["days"] == [{"day": date(2026, 1, 3)}, {"day": None}]
    assert str(first["price"]) == "1.25"
    assert found.fields.type == wanted


def test_a_map_in_json_is_refused_with_advice() -> None:
    wanted = pa.struct([("m", pa.map_(pa.string(), pa.int64()))])
    with pytest.raises(ConfigError, match="use from_json of Spark"):
        decoded(values(b'{"m": {}}'), wanted, JSON)


def test_csv_is_read_by_position() -> None:
    result = decoded(values(b"1,a", b'2,"b, c"', b"3,", None), ORDER, CSV)

    assert result.fields.to_pylist() == [
        {"id": 1, "name": "a"},
        {"id": 2, "name": "b, c"},
        {"id": 3, "name": None},
        None,
    ]


@pytest.mark.parametrize("bad", [b"", b"x,a", b"1", b"1,a,b", b'1,"a', b"1,a\n2,b", b"1,a\n9,2,b"])
def test_a_broken_row_of_csv_harms_no_neighbor(bad: bytes) -> None:
    result = decoded(values(b"0,a", bad, b"1,b", b'2,"c"'), ORDER, CSV)

    assert broken(result) == [1]
    assert [row and row["id"] for row in result.fields.to_pylist()] == [0, None, 1, 2]


def avro_value(**fields: Any) -> bytes:
    out = io.BytesIO()
    told = {"name": None, "at": datetime(2026, 1, 1, tzinfo=UTC), "tags": [], **fields}
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(AVRO)), told)
    return out.getvalue()


def test_avro_is_decoded_and_broken_values_are_found() -> None:
    made = options(valueFormat="avro", avroSchema=AVRO)
    layout = layout_of(made, default_schema(made))
    good = [avro_value(id=n, name="x", tags=["a"]) for n in range(3)]
    given = values(good[0], b"\x02", good[1], good[1] + b"more", None, good[2])

    found = decoded(given, layout.value_type, avro_records(AVRO, None))

    assert broken(found) == [1, 3]
    assert [row and row["id"] for row in found.fields.to_pylist()] == [0, None, 1, None, None, 2]
    assert found.fields.to_pylist()[0]["at"] == datetime(2026, 1, 1, tzinfo=UTC)


def test_an_avro_schema_gives_the_columns() -> None:
    assert spark_schema(AVRO).simpleString() == (
        "struct<id:bigint,name:string,at:timestamp,tags:array<string>>"
    )
    with pytest.raises(ConfigError, match="must be a record"):
        spark_schema('"string"')


def test_without_a_schema_json_cannot_be_decoded() -> None:
    with pytest.raises(ConfigError, match=r"needs \.schema"):
        default_schema(options(valueFormat="json"))


def test_the_columns_are_those_of_sparks_own_source() -> None:
    assert default_schema(options()).simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
        "timestamp:timestamp,timestampType:int>"
    )
    assert default_schema(options(includeHeaders="true")).names[-1] == "headers"
    assert default_schema(options(valueFormat="string"))["value"].dataType == StringType()


def schema(**columns: str) -> StructType:
    made = StructType()
    for name, kind in columns.items():
        made = made.add(name, kind)
    return made


def test_a_column_that_records_lack_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="did you mean offset"):
        layout_of(options(), schema(ofset="long"))


def test_a_column_of_another_type_is_refused() -> None:
    with pytest.raises(ConfigError, match="column 'offset' is bigint, not int"):
        layout_of(options(), schema(offset="integer"))
    with pytest.raises(ConfigError, match="column 'value' is binary or string, not double"):
        layout_of(options(), schema(value="double"))


def test_with_a_format_columns_of_the_record_have_an_underscore() -> None:
    made = options(valueFormat="json")
    layout = layout_of(
        made, schema(id="long", offset="string", _offset="long", _corrupt_record="string")
    )

    assert layout.value_fields == ("id", "offset")
    assert layout.record_columns == {"_offset": "offset"}
    assert layout.corrupt_column == "_corrupt_record"
    assert decoder_of(made).seems_whole(b"{}")
