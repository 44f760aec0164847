"""What Ottla says beyond Kafka costs others nothing: it is skipped, and not sent unasked.

`as_kafka_declares` is the same message without our own fields, which the conformance tests compare
with Kafka's schema; here it plays the peer that has never heard of Ottla.
"""

from types import ModuleType
from typing import Any

import pytest

from ottla.wire.codec import encode
from ottla.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from ottla.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.schema import Declared, Shape, api_of, fields, message, replace, struct
from tests.conformance.oracles import kafka_python, sent
from tests.samples import Flavor, sample
from tests.wire_twins import BOTH, codec_of, encoded

MESSAGES = [
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
]
EVERY_VERSION = [(cls, version) for cls in MESSAGES for version in api_of(cls).versions]
FLEXIBLE = [(cls, version) for cls, version in EVERY_VERSION if version in api_of(cls).flexible]

both_twins = pytest.mark.parametrize("twin", BOTH)


def as_kafka_declares(cls: type[Any]) -> type[Any]:
    """`cls`, and its structs, without the fields that Kafka does not know."""
    kafkas = [field for field in fields(cls) if not field.is_own]
    annotations = {field.name: _annotation(cls, field.name, field.shape) for field in kafkas}
    defaults = {n: v for n, v in cls.__declared_defaults__.items() if n in annotations}
    made = type(cls.__name__, (), {"__annotations__": annotations, **defaults})
    if not hasattr(cls, "__api__"):
        return struct(made)
    api = api_of(cls)
    return message(key=api.key, versions=str(api.versions), flexible=str(api.flexible))(made)


def _annotation(cls: type[Any], name: str, shape: Shape) -> Any:
    if shape.element is not None and shape.element.struct is not None:
        return tuple[as_kafka_declares(shape.element.struct), ...]  # type: ignore[misc]
    return cls.__annotations__[name]


def plain(value: Any) -> Any:
    """A message as dictionaries, without our own fields."""
    if isinstance(value, Declared):
        kafkas = [field for field in fields(type(value)) if not field.is_own]
        return {field.name: plain(getattr(value, field.name)) for field in kafkas}
    return [plain(item) for item in value] if isinstance(value, tuple) else value


@both_twins
@pytest.mark.parametrize(("cls", "version"), FLEXIBLE)
def test_a_peer_that_does_not_know_a_field_of_ours_skips_it(
    twin: ModuleType, cls: type[Any], version: int
) -> None:
    told = sample(cls, version, Flavor.FULL)
    data = encoded(codec_of(twin, cls, version), told)

    heard, end = codec_of(twin, as_kafka_declares(cls), version).decode(data)

    assert plain(heard) == plain(told)
    assert end == len(data)


@both_twins
@pytest.mark.parametrize(("cls", "version"), EVERY_VERSION)
def test_without_a_field_of_ours_the_bytes_are_those_of_kafka(
    twin: ModuleType, cls: type[Any], version: int
) -> None:
    told = sample(cls, version, Flavor.FULL, of_kafka=True)
    data = encoded(codec_of(twin, cls, version), told)

    kafkas = codec_of(twin, as_kafka_declares(cls), version)

    assert encoded(kafkas, kafkas.decode(data)[0]) == data


@both_twins
def test_an_old_version_drops_the_wish_for_a_story(twin: ModuleType) -> None:
    wish = DescribeGroupsRequest(groups=("kitchen",), include_story=True)
    no_wish = DescribeGroupsRequest(groups=("kitchen",))
    codec = codec_of(twin, DescribeGroupsRequest, 4)

    assert encoded(codec, wish) == encoded(codec, no_wish)


@pytest.mark.parametrize("version", [5, 6])
def test_kafka_python_reads_past_a_story(version: int) -> None:
    told = sample(DescribeGroupsResponse, version, Flavor.FULL)
    silent = replace(told, groups=tuple(replace(group, story=None) for group in told.groups))

    read = kafka_python.decoded(DescribeGroupsResponse, version, encode(told, version))

    assert read == sent(silent, version)
