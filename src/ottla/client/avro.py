"""Avro values, with or without a schema registry.

With a registry, a value is a zero byte, the number of its schema in four bytes, and the Avro bytes:
Confluent's format.  Numbers are asked for once and remembered; a registry that cannot be reached is
a `SerializationError` for the record at hand.
"""

import io
import json
import struct
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final

from ottla.client.serdes import SerContext
from ottla.errors import SerializationError

_PREFIX: Final = struct.Struct(">bi")
_MAGIC: Final = 0
_CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_TIMEOUT_S: Final = 10.0


def fastavro() -> ModuleType:
    """The library, or an error that says how to get it."""
    try:
        import fastavro as module
    except ModuleNotFoundError as error:
        if error.name != "fastavro":
            raise
        raise ModuleNotFoundError(
            "Avro needs fastavro: pip install 'ottla[avro]'", name="fastavro"
        ) from error
    library: ModuleType = module
    return library


class Avro:
    """Mappings as Avro; see `ottla.avro`."""

    def __init__(self, schema: str | Mapping[str, Any], registry: str | None) -> None:
        self._library = fastavro()
        declared = json.loads(schema) if isinstance(schema, str) else dict(schema)
        self._text = json.dumps(declared)
        self._schema = self._library.parse_schema(declared)
        self._registry = None if registry is None else Registry(registry)

    def dumps(self, value: Mapping[str, Any] | None, ctx: SerContext, /) -> bytes | None:
        if value is None:
            return None
        out = io.BytesIO()
        if self._registry is not None:
            number = self._registry.number_of(f"{ctx.topic}-{ctx.field}", self._text)
            out.write(_PREFIX.pack(_MAGIC, number))
        self._library.schemaless_writer(out, self._schema, value)
        return out.getvalue()

    def loads(self, data: bytes | None, ctx: SerContext, /) -> Any:
        if data is None:
            return None
        written, body = self._schema, memoryview(data)
        if self._registry is not None:
            if len(data) < _PREFIX.size or data[0] != _MAGIC:
                raise SerializationError(f"{ctx.field} does not begin with a schema's number")
            number = _PREFIX.unpack_from(data)[1]
            written = self._library.parse_schema(json.loads(self._registry.schema_of(number)))
            body = body[_PREFIX.size :]
        return self._library.schemaless_reader(io.BytesIO(body), written, self._schema)


class Registry:
    """A schema registry, and what it answered so far.  Safe from any thread."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._lock = threading.Lock()
        self._numbers: dict[tuple[str, str], int] = {}
        self._schemas: dict[int, str] = {}

    def number_of(self, subject: str, schema: str) -> int:
        """The number of a schema, which is registered if it is not."""
        with self._lock:
            if (subject, schema) not in self._numbers:
                told = self._ask(f"/subjects/{subject}/versions", {"schema": schema})
                self._numbers[subject, schema] = int(told["id"])
            return self._numbers[subject, schema]

    def schema_of(self, number: int) -> str:
        """The schema with this number."""
        with self._lock:
            if number not in self._schemas:
                self._schemas[number] = str(self._ask(f"/schemas/ids/{number}", None)["schema"])
            return self._schemas[number]

    def _ask(self, path: str, body: Mapping[str, Any] | None) -> Any:
        request = urllib.request.Request(
            self._url + path,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": _CONTENT_TYPE, "Accept": _CONTENT_TYPE},
        )
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                detail = error.read(1000).decode(errors="replace")
            raise SerializationError(f"schema registry {self._url}{path}: {detail}") from error
        except OSError as error:
            raise SerializationError(f"schema registry {self._url}{path}: {error}") from error
