"""Messages: both interpreters make the same of any bytes, and what they made survives encoding.

The first two bytes choose the message and its version, the rest is what arrives.
"""

from collections.abc import Iterator
from typing import Any, Final

from ottla.errors import WireError
from ottla.wire.codec import Codec
from tests.conformance.oracles import sent
from tests.declared import every_version, twins
from tests.samples import Flavor, sample
from tests.wire_twins import encoded

_CHOICE_BYTES: Final = 2


def one_input(data: bytes) -> None:
    """Decode, and if that gives a message, encode and decode it again."""
    pairs = every_version()
    cls, version = pairs[int.from_bytes(data[:_CHOICE_BYTES], "big") % len(pairs)]
    codecs = twins(cls, version)
    message = _agreed(codecs, version, data[_CHOICE_BYTES:])
    if message is None:
        return
    again = {encoded(codec, message) for codec in codecs.values()}
    assert len(again) == 1, "the twins encode the same message differently"
    (wire,) = again
    decoded = _agreed(codecs, version, wire)
    assert _shown(decoded, version) == _shown(message, version), "a message changed on its way"
    assert all(encoded(codec, decoded) == wire for codec in codecs.values())


def seeds() -> Iterator[bytes]:
    for index, (cls, version) in enumerate(every_version()):
        for flavor in (Flavor.FULL, Flavor.NULLS):
            message = sample(cls, version, flavor)
            wire = encoded(twins(cls, version)["python"], message)
            yield index.to_bytes(_CHOICE_BYTES, "big") + wire


def _agreed(codecs: dict[str, Codec], version: int, data: bytes) -> Any:
    """What all `codecs` make of `data`: a message, or None if they refuse it."""
    messages = {name: _decoded(codec, data) for name, codec in codecs.items()}
    shown = {name: _shown(message, version) for name, message in messages.items()}
    assert len(set(shown.values())) == 1, shown
    return messages["python"]


def _decoded(codec: Codec, data: bytes) -> Any:
    try:
        message, end = codec.decode(data)
    except WireError:
        return None
    assert 0 <= end <= len(data)
    return message


def _shown(message: Any, version: int) -> str:
    """`message` in words, in which even NaN equals itself."""
    if message is None:
        return "refused"
    return str(sent(message, version, with_defaults=True, with_own=True))
