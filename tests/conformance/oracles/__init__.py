"""Encoders and decoders that we did not write, each behind the same few functions.

`knows(cls, version)` says whether the library has the message; `encoded` makes its bytes, and
`decoded` gives the values it reads, in the form of `sent`.  Values are matched by their place on
the wire, not by name, because each library renames some.
"""

from typing import Any, NamedTuple

from ottla.wire.schema import Declared, default_of, fields


class Sent(NamedTuple):
    """The values of one struct that are on the wire of one version, nested likewise."""

    values: tuple[Any, ...]
    tagged: dict[int, Any]


def sent(
    message: Any, version: int, *, with_defaults: bool = False, with_own: bool = False
) -> Sent:
    """What `version` carries of `message`, in the order of the wire.

    A tagged field that has its default is not sent; `with_defaults` lists it nevertheless.  Fields
    that nobody but us knows must have theirs, unless they are listed `with_own`.
    """

    def plain(value: Any) -> Any:
        if isinstance(value, Declared):
            return sent(value, version, with_defaults=with_defaults, with_own=with_own)
        if isinstance(value, tuple):
            return tuple(plain(item) for item in value)
        return bytes(value) if isinstance(value, memoryview) else value

    own = [f for f in fields(type(message)) if f.is_own and not with_own]
    assert all(getattr(message, f.name) == default_of(f) for f in own), message
    present = [f for f in fields(type(message)) if version in f.versions and f not in own]
    return Sent(
        tuple(plain(getattr(message, f.name)) for f in present if f.tag is None),
        {
            f.tag: plain(getattr(message, f.name))
            for f in present
            if f.tag is not None and (with_defaults or getattr(message, f.name) != default_of(f))
        },
    )
