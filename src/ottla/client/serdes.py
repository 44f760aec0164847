"""Serdes: objects that turn keys and values into bytes and back.

A `Serde` has both directions, so producers and consumers of a topic share one.  `None` is null in
both directions and in all serdes here but JSON's values, where it stays null too: a tombstone is
never turned into text.  Whatever a serde raises reaches the user as `SerializationError`.
"""

from functools import cache
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NamedTuple, Protocol, TypeVar

from ottla.client.headers import Headers
from ottla.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from typing_extensions import TypeVar as DefaultTypeVar

    K = DefaultTypeVar("K", default=bytes | None)
    V = DefaultTypeVar("V", default=bytes | None)
else:
    K = TypeVar("K")
    V = TypeVar("V")

T = TypeVar("T")
S = TypeVar("S")


class SerContext(NamedTuple):
    """Of what record a serde sees a part."""

    topic: str
    field: Literal["key", "value"]
    headers: Headers


class Serde(Protocol[T]):
    """Turns values into bytes and back; None is null, on both sides."""

    def dumps(self, value: T, ctx: SerContext, /) -> bytes | None: ...

    def loads(self, data: bytes | None, ctx: SerContext, /) -> T: ...


class Bytes:
    """Bytes as they are; `None` is null."""

    def dumps(self, value: Any, ctx: SerContext, /) -> bytes | None:
        if value is None or isinstance(value, bytes):
            return value
        if isinstance(value, bytearray | memoryview):
            return bytes(value)
        raise TypeError(
            f"{ctx.field} must be bytes or None, not {type(value).__name__}; "
            f"pass {ctx.field}_serde=, for example ottla.UTF8 or ottla.JSON"
        )

    def loads(self, data: bytes | None, ctx: SerContext, /) -> bytes | None:
        return data


class Utf8:
    """Text as UTF-8."""

    def dumps(self, value: str | None, ctx: SerContext, /) -> bytes | None:
        return None if value is None else value.encode()

    def loads(self, data: bytes | None, ctx: SerContext, /) -> Any:
        return None if data is None else data.decode()


class Json:
    """Anything that JSON can say, as compact UTF-8; `None` is null, not the text `null`."""

    def dumps(self, value: Any, ctx: SerContext, /) -> bytes | None:
        if value is None:
            return None
        encode, _ = _json()
        return encode(value).encode()

    def loads(self, data: bytes | None, ctx: SerContext, /) -> Any:
        if data is None:
            return None
        _, loads = _json()
        return loads(data)


@cache
def _json() -> "tuple[Callable[[Any], str], Callable[[bytes], Any]]":
    """How to write and to read it; imported by those who do."""
    import json

    return json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode, json.loads


BYTES: Final[Serde[bytes | None]] = Bytes()
UTF8: Final[Serde[str]] = Utf8()
JSON: Final[Serde[Any]] = Json()


class Pydantic(Generic[T]):
    """A pydantic model as JSON; see `pydantic`."""

    def __init__(self, model: type[T]) -> None:
        self._model: Any = model

    def dumps(self, value: Any, ctx: SerContext, /) -> bytes | None:
        if value is None:
            return None
        if not isinstance(value, self._model):
            raise TypeError(f"{ctx.field} must be {self._model.__name__}, not {type(value)}")
        text: str = value.model_dump_json()
        return text.encode()

    def loads(self, data: bytes | None, ctx: SerContext, /) -> Any:
        return None if data is None else self._model.model_validate_json(data)


def pydantic(model: type[T]) -> Serde[T]:
    """A serde for instances of a pydantic model, as JSON.

    Raises:
        TypeError: `model` is not a model of pydantic 2.
    """
    if not hasattr(model, "model_validate_json"):
        raise TypeError(f"{model!r} is not a model of pydantic 2: pip install 'ottla[pydantic]'")
    return Pydantic(model)


def avro(
    schema: "str | Mapping[str, Any]", *, registry: str | None = None
) -> "Serde[Mapping[str, Any]]":
    """A serde for mappings, as Avro; see `ottla.client.avro`.

    Args:
        schema: What is written, as a mapping or as JSON text; readers get what was written in its
            terms.
        registry: URL of a schema registry that speaks Confluent's protocol.  With it, values carry
            the number of their schema, which is registered as `<topic>-<key or value>` when it is
            first used; without it, writers and readers must have the same schema.

    Raises:
        ModuleNotFoundError: `fastavro` is not installed: `pip install 'ottla[avro]'`.
    """
    from ottla.client.avro import Avro

    return Avro(schema, registry)


class Functions(Generic[T]):
    """A serde made of functions that know nothing of contexts."""

    def __init__(
        self,
        dumps: "Callable[[T], bytes | None] | None" = None,
        loads: "Callable[[bytes | None], T] | None" = None,
    ) -> None:
        self._dumps = dumps
        self._loads = loads

    def dumps(self, value: T, ctx: SerContext, /) -> bytes | None:
        assert self._dumps is not None, "this serde only reads"
        return self._dumps(value)

    def loads(self, data: bytes | None, ctx: SerContext, /) -> T:
        assert self._loads is not None, "this serde only writes"
        return self._loads(data)


UNSET: Final[Any] = object()
"""For a serde that was not given."""


def serde_of(
    field: str, serde: Any, serializer: "Callable[[Any], bytes | None] | None"
) -> Serde[Any]:
    """The serde that was asked for, as one or as a function."""
    if serializer is not None:
        if serde is not UNSET:
            raise ConfigError(f"give {field}_serde or {field}_serializer, not both")
        if not callable(serializer):
            raise ConfigError(f"{field}_serializer = {serializer!r} is not a function")
        return Functions(dumps=serializer)
    if serde is UNSET:
        return BYTES
    if not callable(getattr(serde, "dumps", None)):
        raise ConfigError(f"{field}_serde = {serde!r} has no method dumps")
    made: Serde[Any] = serde
    return made
