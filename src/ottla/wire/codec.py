"""Encoding and decoding of declared messages: the face of this package.

The twin of the interpreter is chosen here.  A `Codec` is made at the first use of a message and
version, and kept.
"""

from typing import Any, Protocol, TypeVar

from ottla.errors import WireError
from ottla.twins import choose
from ottla.wire.compiler import Plan, plan

T = TypeVar("T")
Part = bytes | bytearray | memoryview


class Codec(Protocol):
    """What both interpreters offer."""

    @property
    def plan(self) -> Plan: ...

    def decode(self, data: Part, position: int = 0) -> tuple[Any, int]:
        """Decode one message that starts at `position`; return it and where it ends."""
        ...

    def encode(self, message: Any) -> list[Part]:
        """Encode `message` as a list of buffers, in which record batches are not copied."""
        ...


_interpreter = choose("wire", compiled="ottla.wire._interpreter", python="ottla.wire.interpreter")


_codecs: dict[tuple[type[Any], int], Codec] = {}


def codec(cls: type[Any], version: int) -> Codec:
    """The codec of message `cls` at `version`; `WireError` if there is no such version."""
    try:
        return _codecs[cls, version]
    except KeyError:
        made: Codec = _interpreter.Codec(plan(cls, version))
        _codecs[cls, version] = made
        return made


def encode(message: Any, version: int) -> bytes:
    """Encode `message` for `version` as one piece, copying the records in it."""
    return b"".join(codec(type(message), version).encode(message))


def decode(cls: type[T], data: Part, version: int) -> T:
    """Decode `data`, which holds exactly one `cls`; records in it are views of `data`.

    Raises `WireError` if it does not, or if bytes are left over.
    """
    message: T
    message, end = codec(cls, version).decode(data)
    if end != memoryview(data).nbytes:
        raise WireError(
            f"{cls.__name__} v{version}: {memoryview(data).nbytes - end} bytes are left over"
        )
    return message
