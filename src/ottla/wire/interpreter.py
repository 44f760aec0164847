"""Executes plans in readable Python: the twin of `_interpreter.pyx`, and its specification.

`Codec` builds one reader and one writer for each value of a plan, as closures, when it is made.
Decoding checks every length against the bytes that are left before anything is made from it, and
answers noise with `WireError`, nothing else.
"""

import struct
from collections.abc import Callable
from struct import Struct
from typing import Any, Final

from ottla.errors import WireError
from ottla.wire.compiler import Absent, FieldPlan, Plan
from ottla.wire.primitives import length_prefix, read_length, read_uvarint, uvarint
from ottla.wire.schema import Kind

Part = bytes | bytearray | memoryview
Reader = Callable[[memoryview, int], tuple[Any, int]]
Writer = Callable[["Output", Any], None]

FORMATS: Final = {
    Kind.INT8: ">b",
    Kind.INT16: ">h",
    Kind.UINT16: ">H",
    Kind.INT32: ">i",
    Kind.UINT32: ">I",
    Kind.INT64: ">q",
    Kind.FLOAT64: ">d",
}


class Output:
    """Encoded bytes in order: what we wrote ourselves, and record batches by reference."""

    __slots__ = ("parts", "tail")

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.tail = bytearray()

    def refer(self, data: Part) -> None:
        """Add `data` without copying it."""
        self.flush()
        self.parts.append(data)

    def flush(self) -> None:
        if self.tail:
            self.parts.append(bytes(self.tail))
            self.tail = bytearray()


class Codec:
    """Encodes and decodes one message at one version."""

    __slots__ = ("_read", "_write", "plan")

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._read = _struct_reader(plan)
        self._write = _struct_writer(plan)

    def decode(self, data: Part, position: int = 0) -> tuple[Any, int]:
        """Decode one message that starts at `position`; return it and where it ends.

        Record batches in it are views of `data`.  Raises `WireError` if the bytes are not such a
        message.
        """
        if position < 0:
            raise ValueError(f"a position of {position}")
        view = memoryview(data).cast("B")
        try:
            if position > len(view):
                raise IndexError
            return self._read(view, position)
        except WireError as error:
            raise WireError(f"{self.plan.title}: {error}") from None
        except (IndexError, struct.error):
            raise WireError(f"{self.plan.title}: the data ends too early") from None
        except UnicodeDecodeError as error:
            raise WireError(f"{self.plan.title}: {error}") from None

    def encode(self, message: Any) -> list[Part]:
        """Encode `message` as a list of buffers, in which record batches are not copied.

        Raises `WireError` if this version cannot carry it.
        """
        output = Output()
        try:
            self._write(output, message)
        except WireError as error:
            raise WireError(f"{self.plan.title}: {error}") from None
        output.flush()
        return output.parts


def _struct_reader(plan: Plan) -> Reader:
    cls, flexible = plan.cls, plan.flexible
    steps = [(field.name, _reader(field)) for field in plan.fields]
    tagged = {field.tag: (field.name, _reader(field)) for field in plan.tagged}
    unsent = {field.name: field.default for field in plan.tagged}
    unsent |= {absent.name: absent.default for absent in plan.absent}

    def read(data: memoryview, position: int) -> tuple[Any, int]:
        values = unsent.copy()
        for name, step in steps:
            values[name], position = step(data, position)
        if flexible:
            position = _read_tags(data, position, tagged, values)
        return cls(**values), position

    return read


def _read_tags(
    data: memoryview, position: int, known: dict[int, tuple[str, Reader]], values: dict[str, Any]
) -> int:
    """Read tagged fields: those we know into `values`, past those a newer peer may send."""
    count, position = read_uvarint(data, position)
    last = -1
    for _ in range(count):
        tag, position = read_uvarint(data, position)
        if tag <= last:
            raise WireError(f"tag {tag} comes after tag {last}")
        last = tag
        size, position = read_uvarint(data, position)
        end = position + size
        if end > len(data):
            raise WireError(f"tag {tag} has {size} bytes, {len(data) - position} are left")
        if tag in known:
            name, step = known[tag]
            values[name], position = step(data[:end], position)
            if position != end:
                raise WireError(f"tag {tag} has {end - position} bytes too many")
        position = end
    return position


def _reader(field: FieldPlan) -> Reader:
    match field.kind:
        case Kind.BOOL:
            return _read_bool
        case Kind.UUID:
            return _read_uuid
        case Kind.STRING | Kind.BYTES | Kind.RECORDS:
            return _sized_reader(field)
        case Kind.ARRAY:
            return _array_reader(field)
        case Kind.STRUCT:
            return _nested_reader(field)
        case _:
            return _number_reader(Struct(FORMATS[field.kind]))


def _read_bool(data: memoryview, position: int) -> tuple[bool, int]:
    return data[position] != 0, position + 1


def _read_uuid(data: memoryview, position: int) -> tuple[bytes, int]:
    end = position + 16
    if end > len(data):
        raise IndexError
    return bytes(data[position:end]), end


def _number_reader(number: Struct) -> Reader:
    unpack, size = number.unpack_from, number.size

    def read(data: memoryview, position: int) -> tuple[Any, int]:
        return unpack(data, position)[0], position + size

    return read


_CONVERSIONS: Final[dict[Kind, Callable[[memoryview], Any]]] = {
    Kind.STRING: lambda view: str(view, "utf-8"),
    Kind.BYTES: bytes,
    Kind.RECORDS: lambda view: view,
}


def _sized_reader(field: FieldPlan) -> Reader:
    compact, nullable, name = field.compact, field.nullable, field.name
    short = field.kind is Kind.STRING
    convert = _CONVERSIONS[field.kind]

    def read(data: memoryview, position: int) -> tuple[Any, int]:
        length, position = read_length(data, position, compact=compact, short=short)
        if length < 0:
            _check_null(name, nullable)
            return None, position
        _check_length(name, length, short=short)
        end = position + length
        if end > len(data):
            raise WireError(f"{name} has {length} bytes, {len(data) - position} are left")
        return convert(data[position:end]), end

    return read


def _array_reader(field: FieldPlan) -> Reader:
    assert field.element is not None
    compact, nullable, name = field.compact, field.nullable, field.name
    least_bytes, step = field.element.least_bytes, _reader(field.element)

    def read(data: memoryview, position: int) -> tuple[Any, int]:
        count, position = read_length(data, position, compact=compact)
        if count < 0:
            _check_null(name, nullable)
            return None, position
        if count * least_bytes > len(data) - position:
            raise WireError(f"{name} has {count} elements, {len(data) - position} bytes are left")
        items = []
        for _ in range(count):
            item, position = step(data, position)
            items.append(item)
        return tuple(items), position

    return read


def _nested_reader(field: FieldPlan) -> Reader:
    """A struct inside a message; one that may be null is preceded by 1, or replaced by -1."""
    assert field.struct is not None
    step = _struct_reader(field.struct)
    if not field.nullable:
        return step

    def read(data: memoryview, position: int) -> tuple[Any, int]:
        return (None, position + 1) if data[position] >= 0x80 else step(data, position + 1)

    return read


def _check_null(name: str, nullable: bool) -> None:
    if not nullable:
        raise WireError(f"{name} is null")


def _check_length(name: str, length: int, *, short: bool) -> None:
    """Strings stay short in all versions, although a compact length could say more."""
    most = 0x7FFF if short else 0x7FFF_FFFF
    if length > most:
        raise WireError(f"{name} has {length} bytes, at most {most} are allowed")


def _struct_writer(plan: Plan) -> Writer:
    cls, flexible = plan.cls, plan.flexible
    steps = [(field.name, _writer(field)) for field in plan.fields]
    tagged = [(field, _writer(field)) for field in plan.tagged]
    unsendable = [absent for absent in plan.absent if not absent.ignorable]

    def write(output: Output, message: Any) -> None:
        if type(message) is not cls:
            raise WireError(f"a {type(message).__name__} where a {cls.__name__} belongs")
        for absent in unsendable:
            _check_unsent(message, absent)
        for name, step in steps:
            step(output, getattr(message, name))
        if flexible:
            _write_tags(output, message, tagged)

    return write


def _check_unsent(message: Any, absent: Absent) -> None:
    value = getattr(message, absent.name)
    if value != absent.default:
        raise WireError(f"this version cannot carry {absent.name} = {value!r}")


def _write_tags(output: Output, message: Any, tagged: list[tuple[FieldPlan, Writer]]) -> None:
    changed = [
        (field.tag, step, value)
        for field, step in tagged
        if (value := getattr(message, field.name)) != field.default
    ]
    output.tail += uvarint(len(changed))
    for tag, step, value in changed:
        inner = Output()
        step(inner, value)
        inner.flush()
        body = b"".join(inner.parts)
        output.tail += uvarint(tag)
        output.tail += uvarint(len(body))
        output.tail += body


def _writer(field: FieldPlan) -> Writer:
    match field.kind:
        case Kind.BOOL:
            return _write_bool
        case Kind.UUID:
            return _uuid_writer(field)
        case Kind.STRING | Kind.BYTES:
            return _sized_writer(field)
        case Kind.RECORDS:
            return _records_writer(field)
        case Kind.ARRAY:
            return _array_writer(field)
        case Kind.STRUCT:
            return _nested_writer(field)
        case _:
            return _number_writer(field)


def _write_bool(output: Output, value: Any) -> None:
    output.tail.append(1 if value else 0)


def _uuid_writer(field: FieldPlan) -> Writer:
    name = field.name

    def write(output: Output, value: Any) -> None:
        data = _plain_bytes(name, value)
        if len(data) != 16:
            raise WireError(f"{name} is a UUID of {len(data)} bytes")
        output.tail += data

    return write


def _number_writer(field: FieldPlan) -> Writer:
    pack, name = Struct(FORMATS[field.kind]).pack, field.name

    def write(output: Output, value: Any) -> None:
        try:
            output.tail += pack(value)
        except struct.error:
            raise WireError(f"{name} = {value!r} is not of type {field.kind.name}") from None

    return write


def _sized_writer(field: FieldPlan) -> Writer:
    compact, nullable, name = field.compact, field.nullable, field.name
    short = field.kind is Kind.STRING

    def write(output: Output, value: Any) -> None:
        if value is None:
            _check_null(name, nullable)
            output.tail += length_prefix(-1, compact=compact, short=short)
            return
        data = _utf8(name, value) if short else _plain_bytes(name, value)
        _check_length(name, len(data), short=short)
        output.tail += length_prefix(len(data), compact=compact, short=short)
        output.tail += data

    return write


def _utf8(name: str, value: Any) -> bytes:
    if not isinstance(value, str):
        raise WireError(f"{name} is a {type(value).__name__}, not a str")
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise WireError(f"{name}: {error}") from None


def _plain_bytes(name: str, value: Any) -> memoryview:
    try:
        return memoryview(value).cast("B")
    except TypeError:
        raise WireError(f"{name} is a {type(value).__name__}, not contiguous bytes") from None


def _records_writer(field: FieldPlan) -> Writer:
    compact, nullable, name = field.compact, field.nullable, field.name

    def write(output: Output, value: Any) -> None:
        if value is None:
            _check_null(name, nullable)
            output.tail += length_prefix(-1, compact=compact)
            return
        size = len(_plain_bytes(name, value))
        _check_length(name, size, short=False)
        output.tail += length_prefix(size, compact=compact)
        if size:
            output.refer(value)

    return write


def _array_writer(field: FieldPlan) -> Writer:
    assert field.element is not None
    compact, nullable, name = field.compact, field.nullable, field.name
    step = _writer(field.element)

    def write(output: Output, value: Any) -> None:
        if value is None:
            _check_null(name, nullable)
            output.tail += length_prefix(-1, compact=compact)
            return
        if not isinstance(value, tuple | list):
            raise WireError(f"{name} is a {type(value).__name__}, not a tuple")
        items = tuple(value)  # encoding an item may change the list it is in
        output.tail += length_prefix(len(items), compact=compact)
        for item in items:
            step(output, item)

    return write


def _nested_writer(field: FieldPlan) -> Writer:
    assert field.struct is not None
    step, nullable = _struct_writer(field.struct), field.nullable
    if not nullable:
        return step

    def write(output: Output, value: Any) -> None:
        output.tail.append(0xFF if value is None else 1)
        if value is not None:
            step(output, value)

    return write
