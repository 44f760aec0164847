"""Values in Avro: with a schema that the user gives, or with numbers of a schema registry.

With a registry, a value is a zero byte, the number of its schema in four bytes, and the Avro bytes
(Confluent's format); schemas may differ from value to value.  Fields are matched by name with those
that Spark wants: one that a value lacks is null.
"""

import io
import json
import struct
import urllib.error
from collections.abc import Callable
from http import HTTPStatus
from types import ModuleType
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import types as spark

from ottla.client.avro import Registry, fastavro
from ottla.errors import ConfigError, OttlaError, SerializationError
from ottla.spark.source.decoding import Decoder

_PREFIX: Final = struct.Struct(">bi")
_MAGIC: Final = 0
_BROKEN: Final = (ArithmeticError, EOFError, LookupError, TypeError, ValueError, struct.error)
"""What a reader raises on bytes that are not of its schema."""

_SIMPLE: Final[dict[str, Callable[[], spark.DataType]]] = {
    "null": spark.NullType,
    "boolean": spark.BooleanType,
    "int": spark.IntegerType,
    "long": spark.LongType,
    "float": spark.FloatType,
    "double": spark.DoubleType,
    "bytes": spark.BinaryType,
    "fixed": spark.BinaryType,
    "string": spark.StringType,
    "enum": spark.StringType,
}
_LOGICAL: Final[dict[str, Callable[[], spark.DataType]]] = {
    "date": spark.DateType,
    "timestamp-millis": spark.TimestampType,
    "timestamp-micros": spark.TimestampType,
    "local-timestamp-millis": spark.TimestampNTZType,
    "local-timestamp-micros": spark.TimestampNTZType,
    "uuid": spark.StringType,
}


class RegistryError(OttlaError):
    """A schema registry cannot be asked."""


def avro_records(schema: str | None, registry_url: str | None) -> Decoder:
    """A decoder; the registry, if there is one, tells which schema a value has."""
    library = fastavro()
    read = library.schemaless_reader
    if registry_url is None:
        assert schema is not None, "checked with the options"
        written = library.parse_schema(_parsed(schema))

        def one(value: bytes) -> Any:
            return _whole(read, io.BytesIO(value), written)

    else:
        schemas = _Schemas(library, registry_url)

        def one(value: bytes) -> Any:
            magic, number = _PREFIX.unpack_from(value)
            if magic != _MAGIC:
                raise ValueError("it does not begin with the number of a schema")
            return _whole(
                read, io.BytesIO(memoryview(value)[_PREFIX.size :]), schemas.numbered(number)
            )

    def decode(values: pa.BinaryArray, value_type: pa.DataType) -> pa.StructArray:
        try:
            found = [one(value) for value in values.to_pylist()]
            return pa.array(found, value_type)
        except (*_BROKEN, pa.ArrowException) as error:
            raise pa.ArrowInvalid(str(error)) from error

    def seems_whole(value: bytes) -> bool:
        try:
            return isinstance(one(value), dict)
        except _BROKEN:
            return False

    return Decoder(decode, seems_whole)


def _whole(read: Callable[..., Any], data: io.BytesIO, written: Any) -> Any:
    found = read(data, written, None)
    if data.read(1):
        raise ValueError("bytes are left after the value")
    return found


class _Schemas:
    """The schemas of a registry, by their numbers; it is asked once for each while a task reads.

    A number that it does not know makes a value broken, and is remembered as well: a topic full of
    such values would ask for each of them otherwise.
    """

    def __init__(self, library: ModuleType, url: str) -> None:
        self._library = library
        self._registry = Registry(url)
        self._parsed: dict[int, Any] = {}
        self._unknown: set[int] = set()

    def numbered(self, number: int) -> Any:
        """A schema; `ValueError` if there is none of that number.

        Raises:
            RegistryError: It cannot be asked, which is no fault of the value.
        """
        if number not in self._parsed and number not in self._unknown:
            self._ask(number)
        if number in self._unknown:
            raise ValueError(f"the registry has no schema {number}")
        return self._parsed[number]

    def _ask(self, number: int) -> None:
        try:
            told = self._registry.schema_of(number)
        except SerializationError as error:
            cause = error.__cause__
            if isinstance(cause, urllib.error.HTTPError) and cause.code == HTTPStatus.NOT_FOUND:
                self._unknown.add(number)
                return
            raise RegistryError(
                f"values cannot be decoded: {error}; schemaRegistry must be reachable from where "
                "tasks run"
            ) from error
        self._parsed[number] = self._library.parse_schema(json.loads(told))


def spark_schema(text: str) -> spark.StructType:
    """The columns of values with an Avro schema.

    Raises:
        ConfigError: It is no record, or has something that Spark has no type for.
    """
    found = _type_of(_parsed(text), {})
    if not isinstance(found, spark.StructType):
        raise ConfigError("avroSchema must be a record, whose fields become columns")
    return found


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ConfigError(f"avroSchema is not JSON: {error}") from None


def _type_of(declared: Any, named: dict[str, spark.DataType]) -> spark.DataType:
    """The type of a declaration; `named` are those that were declared before it."""
    if isinstance(declared, list):
        options = [entry for entry in declared if entry != "null"]
        if len(options) != 1:
            raise ConfigError(f"avroSchema: a column cannot be any of {declared}")
        return _type_of(options[0], named)
    if isinstance(declared, str):
        return named[declared] if declared in named else _plain(declared)
    if not isinstance(declared["type"], str):
        return _type_of(declared["type"], named)
    found = _logical(declared) or _composed(declared, named) or _plain(declared["type"])
    if "name" in declared:
        named[declared["name"]] = found
    return found


def _plain(kind: str) -> spark.DataType:
    if kind not in _SIMPLE:
        raise ConfigError(f"avroSchema: {kind!r} is no type that Spark has")
    return _SIMPLE[kind]()


def _logical(declared: dict[str, Any]) -> spark.DataType | None:
    logical = declared.get("logicalType")
    if logical == "decimal":
        return spark.DecimalType(declared["precision"], declared.get("scale", 0))
    return _LOGICAL[logical]() if logical in _LOGICAL else None


def _composed(declared: dict[str, Any], named: dict[str, spark.DataType]) -> spark.DataType | None:
    match declared["type"]:
        case "array":
            return spark.ArrayType(_type_of(declared["items"], named))
        case "map":
            return spark.MapType(spark.StringType(), _type_of(declared["values"], named))
        case "record" | "error":
            fields = [(f["name"], _type_of(f["type"], named)) for f in declared["fields"]]
            return spark.StructType([spark.StructField(name, kind) for name, kind in fields])
        case _:
            return None
