"""Any API can be made to say nothing but an error, in every version."""

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.testing.refusals import REASON, refusal
from ottla.wire.header import decode_response, encode_response
from ottla.wire.messages.create_topics import CreatableTopicResult
from ottla.wire.registry import Api, ApiKey, api
from ottla.wire.schema import Declared
from tests.broker_fixture import LittleBroker
from tests.samples import Flavor, sample

ERROR = ErrorCode.KAFKA_STORAGE_ERROR
BY_HAND = {ApiKey.FETCH, ApiKey.METADATA, ApiKey.ALTER_REPLICA_LOG_DIRS}
"""These need a broker, or another structure; tests/compat has them."""

EVERYTHING = [
    pytest.param(api(key), version, id=f"{key.name.lower()}-v{version}")
    for key in ApiKey
    if key not in BY_HAND
    for version in api(key).versions
]


def refused(of: Api, version: int) -> tuple[Any, Any]:
    """A request full of things, and what comes back of its refusal over the wire."""
    request = sample(of.request, version, Flavor.FULL)
    response = refusal(of.response, request, version, ERROR)
    frame = b"".join(encode_response(response, version, correlation_id=1))
    return request, decode_response(of, version, frame)[1]


def structures(message: Any) -> Iterator[Any]:
    """`message`, and every structure in it."""
    if isinstance(message, Declared):
        yield message
        for name in type(message).__slots__:
            yield from structures(getattr(message, name))
    elif isinstance(message, tuple):
        for entry in message:
            yield from structures(entry)


def codes(message: Any) -> list[int]:
    return [
        getattr(part, name)
        for part in structures(message)
        for name in ("error_code", "partition_error_code")
        if hasattr(part, name) and getattr(part, name)
    ]


@pytest.mark.parametrize(("of", "version"), EVERYTHING)
def test_the_error_is_said_and_can_be_encoded(of: Api, version: int) -> None:
    _, response = refused(of, version)
    assert codes(response)
    assert set(codes(response)) == {ERROR}


def test_each_partition_of_a_produce_request_is_refused() -> None:
    request, response = refused(api(ApiKey.PRODUCE), 9)
    assert [
        (topic.name, [(p.index, p.error_code, p.error_message) for p in topic.partition_responses])
        for topic in response.responses
    ] == [
        (topic.name, [(p.index, ERROR, REASON) for p in topic.partition_data])
        for topic in request.topic_data
    ]


def test_numbers_of_a_request_are_not_taken_for_results() -> None:
    _, response = refused(api(ApiKey.CREATE_TOPICS), 7)
    refusals: tuple[CreatableTopicResult, ...] = response.topics
    assert [(r.num_partitions, r.replication_factor) for r in refusals] == [(-1, -1)] * 2


@pytest.mark.parametrize(
    ("key", "version", "asked", "entries", "name"),
    [
        (ApiKey.DELETE_TOPICS, 5, "topic_names", "responses", "name"),
        (ApiKey.FIND_COORDINATOR, 4, "coordinator_keys", "coordinators", "key"),
        (ApiKey.DESCRIBE_GROUPS, 5, "groups", "groups", "group_id"),
    ],
)
def test_plain_names_become_structures(
    key: ApiKey, version: int, asked: str, entries: str, name: str
) -> None:
    request, response = refused(api(key), version)
    named = [getattr(entry, name) for entry in getattr(response, entries)]
    assert named == list(getattr(request, asked))


def test_a_group_is_refused_as_a_whole() -> None:
    request, response = refused(api(ApiKey.OFFSET_FETCH), 8)
    assert [(group.group_id, group.error_code, group.topics) for group in response.groups] == [
        (group.group_id, ERROR, ()) for group in request.groups
    ]


def test_every_api_that_a_broker_serves_is_among_them() -> None:
    served = {route.api.key for route in LittleBroker().node.routes.values()}
    assert served <= {param.values[0].key for param in EVERYTHING} | BY_HAND  # type: ignore[union-attr]
