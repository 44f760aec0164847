"""Every message and version, in both interpreters: decoding undoes encoding, and refuses noise.

Whatever the bytes, decoding gives a message or a `WireError`, and both interpreters the same."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import WireError
from ottla.wire.codec import Codec, encode
from ottla.wire.schema import api_of
from tests.conformance.oracles import sent
from tests.declared import EVERY_MESSAGE, EVERY_VERSION, twins
from tests.samples import Flavor, sample
from tests.strategies import damaged, messages
from tests.wire_twins import encoded

FEW = settings(max_examples=settings().max_examples // 10)
"""There are more than 560 messages and versions."""

SOME = settings(max_examples=settings().max_examples // 5)
"""There are more than 150 messages."""


def outcome(codec: Codec, data: bytes, version: int) -> str:
    """What `codec` makes of `data`, in a form in which even NaN equals itself."""
    try:
        message, end = codec.decode(data)
    except WireError:
        return "refused"
    assert 0 <= end <= len(data)
    return f"{sent(message, version, with_defaults=True)} of {end} bytes"


def agreed(cls: type[Any], version: int, data: bytes) -> str:
    """What both twins make of `data`; any exception but `WireError` escapes."""
    outcomes = {name: outcome(codec, data, version) for name, codec in twins(cls, version).items()}
    assert len(set(outcomes.values())) == 1, outcomes
    return outcomes["python"]


@EVERY_VERSION
@FEW
@given(data=st.data())
def test_decoding_undoes_encoding(cls: type[Any], version: int, data: st.DataObject) -> None:
    original = data.draw(messages(cls, version))
    both = twins(cls, version)
    (wire,) = {encoded(codec, original) for codec in both.values()}

    for codec in both.values():
        assert codec.decode(wire) == (original, len(wire))
        assert codec.decode(b"before" + wire + b"after", 6) == (original, 6 + len(wire))


@EVERY_MESSAGE
def test_a_message_cut_short_is_refused_wherever_it_is_cut(cls: type[Any]) -> None:
    for version in api_of(cls).versions:
        whole = encode(sample(cls, version, Flavor.FULL), version)
        for codec in twins(cls, version).values():
            for end in range(len(whole)):
                with pytest.raises(WireError):
                    codec.decode(whole[:end])


@EVERY_MESSAGE
@SOME
@given(data=st.data())
def test_damaged_bytes_are_refused_or_decoded(cls: type[Any], data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(list(api_of(cls).versions)))
    whole = encode(sample(cls, version, Flavor.NULLS), version)

    agreed(cls, version, data.draw(damaged(whole)))


@EVERY_MESSAGE
@SOME
@given(data=st.data(), noise=st.binary(max_size=100))
def test_noise_is_refused_or_decoded(cls: type[Any], data: st.DataObject, noise: bytes) -> None:
    version = data.draw(st.sampled_from(list(api_of(cls).versions)))

    agreed(cls, version, noise)
