"""The words in which messages are declared: `message`, `struct`, `at`, and the wire types.

A declaration is a class whose annotations are wire types and whose values are defaults or
`at(...)`.  One class covers all versions of a message: a field that a version lacks has its
default.  Type checkers see a frozen, keyword-only dataclass.  At run time it is a plain class
with slots and a constructor written for the second instance, because there are hundreds of these
classes and a broker that answers in milliseconds cannot spend one on building each (ADR 0006).

Nothing here encodes or decodes: `ottla.wire.compiler` reads the declarations.
"""

from collections.abc import Callable, Iterator
from enum import IntEnum
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
)

from ottla.values import dataclass

T = TypeVar("T")

NEWEST: Final = 0x7FFF
"""The upper end of an open version range such as "3+"."""


OWN_TAGS: Final = 10_000
"""Tags from here on are Ottla's own (ADR 0016).  Kafka numbers tagged fields from 0, without gaps,
and whoever does not know a tag skips it."""


@dataclass(frozen=True, slots=True)
class Versions:
    """An inclusive range of protocol versions, written "3+", "0-12", "7" or "none"."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str) -> "Versions":
        if text == "none":
            return cls(1, 0)
        if text.endswith("+"):
            return cls(int(text[:-1]), NEWEST)
        low, _, high = text.partition("-")
        return cls(int(low), int(high or low))

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.low, self.high + 1))

    def __str__(self) -> str:
        if self.low > self.high:
            return "none"
        if self.high == NEWEST:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


EVERY: Final = Versions(0, NEWEST)
NO_VERSION: Final = Versions(1, 0)


class Kind(IntEnum):
    """What a value looks like on the wire.  Both interpreters know these numbers."""

    BOOL = 0
    INT8 = 1
    INT16 = 2
    UINT16 = 3
    INT32 = 4
    UINT32 = 5
    INT64 = 6
    FLOAT64 = 7
    UUID = 8
    STRING = 9
    BYTES = 10
    RECORDS = 11
    ARRAY = 12
    STRUCT = 13


@dataclass(frozen=True, slots=True)
class WireType:
    """A scalar type: its kind, and the value it has where nothing else is said."""

    kind: Kind
    zero: Any


NO_UUID: Final = bytes(16)
"""Kafka's zero UUID, which stands for "none".  UUIDs are 16 plain bytes here: hashable, and
twenty times cheaper to make than `uuid.UUID`."""

Bool = Annotated[bool, WireType(Kind.BOOL, False)]
Int8 = Annotated[int, WireType(Kind.INT8, 0)]
Int16 = Annotated[int, WireType(Kind.INT16, 0)]
UInt16 = Annotated[int, WireType(Kind.UINT16, 0)]
Int32 = Annotated[int, WireType(Kind.INT32, 0)]
UInt32 = Annotated[int, WireType(Kind.UINT32, 0)]
Int64 = Annotated[int, WireType(Kind.INT64, 0)]
Float64 = Annotated[float, WireType(Kind.FLOAT64, 0.0)]
Uuid = Annotated[bytes, WireType(Kind.UUID, NO_UUID)]
String = Annotated[str, WireType(Kind.STRING, "")]
Bytes = Annotated[bytes, WireType(Kind.BYTES, b"")]
Records = Annotated[bytes | bytearray | memoryview, WireType(Kind.RECORDS, b"")]
"""Record batches.  Decoding gives a `memoryview` of the caller's buffer, encoding passes the
bytes on by reference: they are never copied here."""


class _Missing:
    __slots__ = ()

    def __repr__(self) -> str:
        return "<no default>"


MISSING: Final = _Missing()


@dataclass(frozen=True, slots=True)
class At:
    """What `at(...)` said of a field."""

    versions: Versions = EVERY
    default: Any = MISSING
    nullable: Versions | None = None
    tag: int | None = None
    ignorable: bool = False
    flexible: bool = True


def at(
    versions: str,
    *,
    default: Any = MISSING,
    nullable: str | None = None,
    tag: int | None = None,
    ignorable: bool = False,
    flexible: bool = True,
) -> Any:
    """Declare in which versions a field is on the wire, and how.

    Args:
        versions: Where the field exists, e.g. "5+".
        default: Its value where the caller or the version gives none.
        nullable: Versions that may carry `None`; all of them when the type says `| None`.
        tag: Its number, if it travels among the tagged fields (KIP-482).
        ignorable: Whether a version without it may drop it silently.  Otherwise encoding a
            value other than the default for such a version is a `WireError`.
        flexible: False for the one string (a request header's client id) that keeps its old
            length prefix in flexible versions.
    """
    allowed = None if nullable is None else Versions.parse(nullable)
    return At(Versions.parse(versions), default, allowed, tag, ignorable, flexible)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The type of a value: a scalar, an array of shapes, or a declared struct."""

    kind: Kind
    zero: Any
    element: "Shape | None" = None
    struct: type[Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a declaration, as `fields` reports it."""

    name: str
    shape: Shape
    versions: Versions
    nullable: Versions
    default: Any
    tag: int | None
    ignorable: bool
    flexible: bool

    @property
    def is_own(self) -> bool:
        """Whether Kafka knows no such field."""
        return self.tag is not None and self.tag >= OWN_TAGS


@dataclass(frozen=True, slots=True)
class Api:
    """What `message` was told: `key` is the API key, or the record type of a stored record."""

    name: str
    key: int | None
    versions: Versions
    flexible: Versions


class Declared:
    """What every declared class can do.  Declarations do not name it; the decorators add it."""

    __slots__: tuple[str, ...] = ()
    __declared_defaults__: ClassVar[dict[str, Any]] = {}
    __declared_fields__: ClassVar[tuple[Field, ...] | None] = None
    __has_instance__: ClassVar[bool] = False

    def __init__(self, **values: Any) -> None:
        cls = type(self)
        if cls.__has_instance__ or not _fill(self, values):
            cls.__init__ = _written_init(cls)  # type: ignore[method-assign]
            cls.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, n) == getattr(other, n) for n in type(self).__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = ", ".join(f"{n}={getattr(self, n)!r}" for n in type(self).__slots__)
        return f"{type(self).__name__}({values})"

    def __replace__(self, **changes: Any) -> Any:
        cls = type(self)
        for name in cls.__slots__:
            if name not in changes:
                changes[name] = getattr(self, name)
        return cls(**changes)

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), tuple(getattr(self, n) for n in type(self).__slots__))


def _rebuild(cls: type[Any], values: tuple[Any, ...]) -> Any:
    return cls(**dict(zip(cls.__slots__, values, strict=True)))


def replace(message: T, **changes: Any) -> T:
    """Return a copy of `message` with some fields changed."""
    return message.__replace__(**changes)  # type: ignore[attr-defined, no-any-return]


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(at,))
def struct(cls: type[T]) -> type[T]:
    """Declare a structure nested in a message."""
    return _declare(cls)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(at,))
def message(
    *, key: int | None = None, versions: str, flexible: str = "none"
) -> Callable[[type[T]], type[T]]:
    """Declare a request, a response or a stored record, and the versions we speak."""

    def decorate(cls: type[T]) -> type[T]:
        declared = _declare(cls)
        api = Api(cls.__name__, key, Versions.parse(versions), Versions.parse(flexible))
        declared.__api__ = api  # type: ignore[attr-defined]
        return declared

    return decorate


def api_of(cls: type[Any]) -> Api:
    """What `cls` was declared with by `message`."""
    api: Api = cls.__api__
    return api


def _declare(cls: type[T]) -> type[T]:
    """Rebuild `cls` with slots: its class attributes are defaults, not values."""
    annotations = dict(cls.__annotations__)
    dropped = {"__dict__", "__weakref__", "__annotate__", "__annotate_func__", *annotations}
    namespace = {n: v for n, v in cls.__dict__.items() if n not in dropped}
    namespace["__slots__"] = tuple(annotations)
    namespace["__annotations__"] = annotations
    namespace["__declared_defaults__"] = {
        n: cls.__dict__[n] for n in annotations if n in cls.__dict__
    }
    return type(cls.__name__, (Declared,), namespace)


def fields(cls: type[Any]) -> tuple[Field, ...]:
    """The fields of a declared class, in wire order."""
    if cls.__declared_fields__ is None:
        cls.__declared_fields__ = tuple(
            _field(name, annotation, cls.__declared_defaults__.get(name, MISSING))
            for name, annotation in cls.__annotations__.items()
        )
    made: tuple[Field, ...] = cls.__declared_fields__
    return made


def _field(name: str, annotation: Any, value: Any) -> Field:
    said = value if isinstance(value, At) else At(default=value)
    may_be_null = get_origin(annotation) in (Union, UnionType) and NoneType in get_args(annotation)
    if said.nullable is not None and not may_be_null:
        raise TypeError(f"{name}: nullable={said.nullable}, but its type does not allow None")
    nullable = (said.nullable or said.versions) if may_be_null else NO_VERSION
    return Field(
        name=name,
        shape=_shape(annotation),
        versions=said.versions,
        nullable=nullable,
        default=said.default,
        tag=said.tag,
        ignorable=said.ignorable,
        flexible=said.flexible,
    )


def _shape(annotation: Any) -> Shape:
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        return _shape(next(a for a in get_args(annotation) if a is not NoneType))
    if origin is tuple:
        return Shape(kind=Kind.ARRAY, zero=(), element=_shape(get_args(annotation)[0]))
    if origin is Annotated:
        scalar: WireType = get_args(annotation)[1]
        return Shape(kind=scalar.kind, zero=scalar.zero)
    return Shape(kind=Kind.STRUCT, zero=MISSING, struct=annotation)


def default_of(field: Field) -> Any:
    """The value of a field that a version lacks."""
    if field.default is not MISSING:
        return field.default
    if field.shape.struct is not None:
        return blank(field.shape.struct)
    return field.shape.zero


def blank(cls: type[T]) -> T:
    """An instance of `cls` in which every field has its default, or the zero of its type."""
    return cls(**{f.name: default_of(f) for f in fields(cls)})


def _fill(instance: Declared, values: dict[str, Any]) -> bool:
    """Make the first instance of a class without a constructor, for a start has only one of many.

    False if the constructor has to refuse the values.
    """
    cls = type(instance)
    cls.__has_instance__ = True
    for field in fields(cls):
        value = values.get(field.name, field.default)
        if value is MISSING:
            return False
        setattr(instance, field.name, value)
    return values.keys() <= set(cls.__slots__)


def _written_init(cls: type[Any]) -> Callable[..., None]:
    """Write and compile the constructor, as `dataclasses` does, but for one class in use."""
    scope: dict[str, Any] = {}
    parameters, body = [], []
    for field in fields(cls):
        scope[f"_{field.name}"] = field.default
        has_default = field.default is not MISSING
        parameters.append(f"{field.name}=_{field.name}" if has_default else field.name)
        body.append(f"    self.{field.name} = {field.name}")
    head = (
        f"def __init__(self, *, {', '.join(parameters)}):"
        if parameters
        else ("def __init__(self):")
    )
    exec("\n".join([head, *body, "    pass"]), scope)
    init: Callable[..., None] = scope["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init
